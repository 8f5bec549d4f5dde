# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_syncguard_global_optspecs
    string join \n store= store-file= q/quiet v/verbose h/help V/version
end

function __fish_syncguard_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_syncguard_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_syncguard_using_subcommand
    set -l cmd (__fish_syncguard_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c syncguard -n "__fish_syncguard_needs_command" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_needs_command" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_needs_command" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_needs_command" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_needs_command" -s V -l version -d 'Print version'
complete -c syncguard -n "__fish_syncguard_needs_command" -f -a "run" -d 'Runs a command while holding a lock'
complete -c syncguard -n "__fish_syncguard_needs_command" -f -a "acquire" -d 'Takes a lock and leaves it held, for a holder that is not one command'
complete -c syncguard -n "__fish_syncguard_needs_command" -f -a "extend" -d 'Lets a lock of `acquire` live for another TTL from now on'
complete -c syncguard -n "__fish_syncguard_needs_command" -f -a "release" -d 'Releases a lock of `acquire`, or takes locks away from their holder'
complete -c syncguard -n "__fish_syncguard_needs_command" -f -a "status" -d 'Shows who holds a lock, since when and for how long'
complete -c syncguard -n "__fish_syncguard_needs_command" -f -a "tick" -d 'Shows the last tick of a key that began, and the next one'
complete -c syncguard -n "__fish_syncguard_needs_command" -f -a "ls" -d 'Lists the locks that are held'
complete -c syncguard -n "__fish_syncguard_needs_command" -f -a "watch" -d 'Shows the locks that are held, again and again, until q or Ctrl-C'
complete -c syncguard -n "__fish_syncguard_needs_command" -f -a "export" -d 'Prints the held locks once, as metrics in the text format of Prometheus'
complete -c syncguard -n "__fish_syncguard_needs_command" -f -a "fence" -d 'Shows or raises the fence counter of a key'
complete -c syncguard -n "__fish_syncguard_needs_command" -f -a "copy-fences" -d 'Raises all fence counters of a store to those of another one'
complete -c syncguard -n "__fish_syncguard_needs_command" -f -a "setup" -d 'Creates the tables of the store, if it has any'
complete -c syncguard -n "__fish_syncguard_needs_command" -f -a "doctor" -d 'Checks whether a store is safe for locks, whether this user may do what is needed, and what it costs'
complete -c syncguard -n "__fish_syncguard_needs_command" -f -a "completions" -d 'Prints the completions for a shell'
complete -c syncguard -n "__fish_syncguard_needs_command" -f -a "man" -d 'Prints the man page of the program or of a subcommand'
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -s w -l wait -d 'The longest time to wait for the lock, such as 30s or 5m; a bare number is in seconds, as for flock [default: no limit]' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -s E -l conflict-exit-code -d 'The exit status if another process holds the lock [default: 75]' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l ttl -d 'How long the lock outlives a crash of this machine; it is renewed three times in this time' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l max-hold -d 'The longest time to hold the lock; after that it counts as lost' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l at-least -d 'Keeps the lock at least this long, even if the command ends earlier: for jobs of several machines' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l permits -d 'Lets this many commands run at once, instead of one; all callers give the same number' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l on-lost -d 'What happens to the command when the lock is lost; the exit status is 76 in any case' -r -f -a "term\t'SIGTERM, and SIGKILL after the grace'
kill\t'SIGKILL at once'
ignore\t'The command continues: only for work that checks the fence itself'"
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l grace -d 'The time between SIGTERM and SIGKILL when the lock is lost' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l holder -d 'Names the holder, for people [default: `SYNCGUARD_HOLDER`, or else host name and process id]' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l note -d 'Says what the lock is for, such as the address of a run [default: `SYNCGUARD_NOTE`]' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l tick -d 'Runs the command once for each tick of this cron expression, across all processes with this key' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l tz -d 'The time zone of --tick, such as Europe/Berlin' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l attempts -d 'How many attempts a tick has in all, 1 to 999, the same for all processes with this key; a command that fails is followed by another attempt' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l missed -d 'Which ticks are made up for that no process started in time' -r -f -a "skip\t'None'
last\t'The last one'
each\t'Each one, oldest first'"
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l max-lateness -d 'How late a tick may begin [default: 1m; no limit with --missed last or each]' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -s n -l no-wait -d 'Does not wait: ends with status 75 if another process holds the lock'
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -l loop -d 'Goes on with the next tick, until SIGTERM or SIGINT: no cron is needed'
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand acquire" -l ttl -d 'How long the lock lives unless it is extended' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand acquire" -l save -d 'Writes the lock to this new file, which only this user can read; `extend` and `release` take it' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand acquire" -s w -l wait -d 'The longest time to wait for the lock, such as 30s or 5m; a bare number is in seconds, as for flock [default: no limit]' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand acquire" -s E -l conflict-exit-code -d 'The exit status if another process holds the lock [default: 75]' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand acquire" -l note -d 'Says what the lock is for, such as the address of a run [default: `SYNCGUARD_NOTE`]' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand acquire" -l holder -d 'Names the holder, for people [default: `SYNCGUARD_HOLDER`, or else user, host name and the id of the process that has called this program: `alice@build-7/412`]' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand acquire" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand acquire" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand acquire" -l json -d 'Prints the lock as one line of JSON; it contains the lock id, which is enough to release the lock'
complete -c syncguard -n "__fish_syncguard_using_subcommand acquire" -s n -l no-wait -d 'Does not wait: ends with status 75 if another process holds the lock'
complete -c syncguard -n "__fish_syncguard_using_subcommand acquire" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand acquire" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand acquire" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand extend" -l from -d 'The file of `acquire --save`, which gets the new expiry; `-` reads standard input and prints' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand extend" -l ttl -d 'How long the lock lives from now on; this replaces the time that is left' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand extend" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand extend" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand extend" -l json -d 'Prints the lock with its new expiry as one line of JSON'
complete -c syncguard -n "__fish_syncguard_using_subcommand extend" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand extend" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand extend" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand release" -l holder -d 'Takes away all locks of the holder with exactly this label, such as a process that is dead' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand release" -l from -d 'Releases the lock in this file of `acquire --save`, and removes the file; `-` is standard input. Ends with status 76 if the lock was no longer held; the file then stays until its expiry' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand release" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand release" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand release" -l force -d 'Confirms that the holder may lose its lock'
complete -c syncguard -n "__fish_syncguard_using_subcommand release" -s y -l yes -d 'Does not ask for confirmation on a terminal'
complete -c syncguard -n "__fish_syncguard_using_subcommand release" -l json -d 'Prints a line of JSON for each lock'
complete -c syncguard -n "__fish_syncguard_using_subcommand release" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand release" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand status" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand status" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand status" -l json -d 'Prints one line of JSON'
complete -c syncguard -n "__fish_syncguard_using_subcommand status" -s e -l exit-code -d 'Ends with status 75 if the lock is held; permits do not count'
complete -c syncguard -n "__fish_syncguard_using_subcommand status" -l reveal -d 'Shows the lock id too, which is enough to release the lock'
complete -c syncguard -n "__fish_syncguard_using_subcommand status" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand status" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand tick" -l tick -d 'The cron expression, for the next tick' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand tick" -l tz -d 'The time zone of --tick, such as Europe/Berlin' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand tick" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand tick" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand tick" -l json -d 'Prints one line of JSON'
complete -c syncguard -n "__fish_syncguard_using_subcommand tick" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand tick" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand tick" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand ls" -l longer-than -d 'Lists only locks that have been held for longer than this, and ends with status 75 if there are any' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand ls" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand ls" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand ls" -l json -d 'Prints a line of JSON for each lock'
complete -c syncguard -n "__fish_syncguard_using_subcommand ls" -l reveal -d 'Shows the lock ids too, each of which is enough to release its lock; only with --json'
complete -c syncguard -n "__fish_syncguard_using_subcommand ls" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand ls" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand watch" -s i -l interval -d 'The time between two refreshes' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand watch" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand watch" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand watch" -l json -d 'Prints a line of JSON for each refresh; needs no terminal'
complete -c syncguard -n "__fish_syncguard_using_subcommand watch" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand watch" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand watch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand export" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand export" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand export" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand export" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and not __fish_seen_subcommand_from show raise" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and not __fish_seen_subcommand_from show raise" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and not __fish_seen_subcommand_from show raise" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and not __fish_seen_subcommand_from show raise" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and not __fish_seen_subcommand_from show raise" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and not __fish_seen_subcommand_from show raise" -f -a "show" -d 'Shows the last fence of a key, held or not'
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and not __fish_seen_subcommand_from show raise" -f -a "raise" -d 'Raises the counter of a key, for example after a restored backup; never lowers it'
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and __fish_seen_subcommand_from show" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and __fish_seen_subcommand_from show" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and __fish_seen_subcommand_from show" -l json -d 'Prints one line of JSON'
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and __fish_seen_subcommand_from raise" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and __fish_seen_subcommand_from raise" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and __fish_seen_subcommand_from raise" -l json -d 'Prints one line of JSON'
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and __fish_seen_subcommand_from raise" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and __fish_seen_subcommand_from raise" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand fence; and __fish_seen_subcommand_from raise" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand copy-fences" -l from -d 'The old store, which is not changed [default: `SYNCGUARD_FROM`]' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand copy-fences" -l to -d 'The new store [default: `SYNCGUARD_TO`]' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand copy-fences" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand copy-fences" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand copy-fences" -l while-held -d 'Copies even while locks are held on the old store, which may then grant fences that the copy misses'
complete -c syncguard -n "__fish_syncguard_using_subcommand copy-fences" -l json -d 'Prints one line of JSON'
complete -c syncguard -n "__fish_syncguard_using_subcommand copy-fences" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand copy-fences" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand copy-fences" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand setup" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand setup" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand setup" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand setup" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand setup" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand doctor" -l rounds -d 'How often the lock is taken and released to measure the cost' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand doctor" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand doctor" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand doctor" -l json -d 'Prints one line of JSON'
complete -c syncguard -n "__fish_syncguard_using_subcommand doctor" -l strict -d 'Ends with status 78 on yellow findings, too'
complete -c syncguard -n "__fish_syncguard_using_subcommand doctor" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand doctor" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand completions" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand completions" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand completions" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand completions" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c syncguard -n "__fish_syncguard_using_subcommand man" -l store -d 'The store: redis://host, postgres://user@host/database, sqlite:///path or firestore://project' -r
complete -c syncguard -n "__fish_syncguard_using_subcommand man" -l store-file -d 'A file with the URL of the store; `SYNCGUARD_STORE_FILE` can name one too' -r -F
complete -c syncguard -n "__fish_syncguard_using_subcommand man" -s q -l quiet -d 'Prints errors only'
complete -c syncguard -n "__fish_syncguard_using_subcommand man" -s v -l verbose -d 'Shows what the library logs, such as risks of the store; twice: all of it'
complete -c syncguard -n "__fish_syncguard_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'
