SELECT {now} AS answered_ms
