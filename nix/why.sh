# shellcheck shell=bash
# why_not_built LOG: the cause of a failure of Nix, in one line. Sourced.

# How Nix, pip, npm, Maven and apt report that a host is not reached.
unreachable='name resolution|name or service not known|could(n.t| not) resolve|unknown host|network is unreachable|no route to host'
unreachable+='|unable to download|failed to establish a new connection|cannot connect to proxy|ConnectTimeoutError'
unreachable+='|could not transfer .*(refused|timed out|unreachable)|connect \([0-9]+: |unable to connect to [^ ]+:'
unreachable+='|\b(EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT)'

why_not_built() {
  if grep -qiE "$unreachable" "$1"; then
    echo "what it is made of cannot be fetched without network"
  else # the last error: of an evaluation the first ones are the trace, of builds all but these are causes
    { grep -E '^ *error: .' "$1" | grep -v 'dependencies of derivation' || tail -n 1 "$1"; } | tail -n 1 | sed -E 's/^ *(error: )?//; s/;$//'
  fi
}
