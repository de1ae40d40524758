#!/usr/bin/env bash
# A gate as people write it: read the event, decide by a few patterns, keep a
# durable record, answer. One jq and one sync; a second jq for the answer would
# be usual, and slower.
#
#   hook.sh DIR <event
set -u
{ read -r tool; read -r command; } < <(jq -r '.tool_name, .tool_input.command' 2>/dev/null)
case "$tool $command" in
  Bash\ git\ status* | Bash\ git\ diff* | Bash\ ls* | Bash\ cat* | Read\ *) decision=allow reason="read only" ;;
  *rm\ -rf* | *sudo* | *git\ push*) decision=deny reason="not without a person" ;;
  *) decision=ask reason="no rule" ;;
esac
printf '{"time":%s,"tool":"%s","decision":"%s","reason":"%s"}\n' \
  "$EPOCHREALTIME" "$tool" "$decision" "$reason" >>"$1/hookbash"
sync -d "$1/hookbash"
printf '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"%s","permissionDecisionReason":"%s"}}\n' \
  "$decision" "$reason"
