#!/bin/sh
# Refuses a commit whose subject would not do: ln -s ../../tests/commit-msg.sh .git/hooks/commit-msg
subject=$(sed -n '/^#/!{p;q;}' "$1")
case $subject in
fixup!* | squash!* | Merge* | Revert*) exit 0 ;;
[A-Z]*) ;;
*) echo "commit-msg: begin with a capital: an imperative, no prefix" >&2; exit 1 ;;
esac
[ "${#subject}" -le 60 ] && exit 0
echo "commit-msg: ${#subject} characters, at most 60: $subject" >&2
exit 1
