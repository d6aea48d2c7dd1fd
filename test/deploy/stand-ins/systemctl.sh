#!/bin/sh
# Stands for systemctl where no systemd runs: starts, reloads, succeeds and stops what the placed unit says.
set -eu
unit=/etc/systemd/system/troupe.service log=/var/log/troupe.log pid=/run/troupe.pid
value() { cat "$unit" "$unit".d/*.conf 2>/dev/null | sed -n "s/^$1=//p"; }
starts() { touch "$log"; grep -c '"listening"' "$log" || true; }
start() {
  mkdir -p -m 700 /var/lib/troupe /run/troupe-credentials
  before=$(starts)
  value LoadCredential | while IFS=: read -r name path; do cp "$path" "/run/troupe-credentials/$name"; done
  # shellcheck disable=SC2046
  setsid env -i PATH=/usr/bin:/bin STATE_DIRECTORY=/var/lib/troupe CREDENTIALS_DIRECTORY=/run/troupe-credentials $(value Environment) \
    sh -c "cd / && exec $(value ExecStart)" >>"$log" 2>&1 &
  echo $! >"$pid"
  # As systemd waits for READY=1, which comes behind the line of the start.
  for _ in $(seq 400); do [ "$(starts)" -gt "$before" ] && /usr/local/bin/troupe health >/dev/null && return; sleep 0.05; done
  cat "$log" >&2
  exit 1
}
stop() {
  kill -TERM "$(cat "$pid")"
  while kill -0 "$(cat "$pid")" 2>/dev/null; do sleep 0.05; done
  # KillMode=mixed: whoever is left, such as a parent process that still drains.
  for old in $(cat "$pid.before" 2>/dev/null); do kill -KILL "$old" 2>/dev/null || true; done
  rm -f "$pid.before"
}
case "$*" in
  daemon-reload) test -f "$unit" ;;
  "enable --now troupe-backup.timer") test -f "${unit%.service}-backup.timer" ;;
  "start troupe-backup.service")
    mkdir -p -m 700 /var/lib/troupe-backup
    # systemd's own escapes; the quotes are the shell's, too.
    sh -c "$(sed -n 's/^ExecStart=//p' "${unit%.service}-backup.service" | sed 's/\$\$/$/g; s/%%/%/g')" ;;
  "enable --now troupe" | "start troupe") start ;;
  "stop troupe") stop ;;
  "restart troupe") stop; start ;;
  "reload troupe") kill -HUP "$(cat "$pid")" ;;
  "kill --kill-who=main --signal=SIGUSR2 troupe")
    kill -USR2 "$(cat "$pid")"
    for _ in $(seq 200); do
      new_process=$(sed -n 's/.*"upgrade: handing off[^}]*"process":\([0-9]*\).*/\1/p' "$log" | tail -n 1)
      [ -n "$new_process" ] && cat "$pid" >>"$pid.before" && echo "$new_process" >"$pid" && exit 0
      sleep 0.05
    done
    exit 1 ;;
  "show "*) exit 1 ;;
  *) echo "systemctl does not know: $*" >&2; exit 1 ;;
esac
