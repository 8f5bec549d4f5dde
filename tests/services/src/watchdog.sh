# Ends what the parent started when the parent is gone, however it went: then our standard
# input ends.
# $1: the folder to remove. Standard input: lines "add GROUP" and "del GROUP".
trap '' HUP INT QUIT TERM

groups=' '
while read -r change group; do
    case $change in
        add) groups="$groups$group " ;;
        del)
            case $groups in
                *" $group "*) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
            esac
            ;;
    esac
done

any_left() {
    for group in $groups; do
        kill -s 0 -- "-$group" 2>/dev/null && return 0
    done
    return 1
}

# SIGINT lets PostgreSQL remove its shared memory, unless it was stopped; who does not react in two
# seconds is killed.
for group in $groups; do
    kill -s INT -- "-$group" 2>/dev/null
    kill -s CONT -- "-$group" 2>/dev/null
done
rounds=0
while any_left && [ "$rounds" -lt 20 ]; do
    sleep 0.1
    rounds=$((rounds + 1))
done
for group in $groups; do
    kill -s KILL -- "-$group" 2>/dev/null
done
rm -rf -- "$1"
