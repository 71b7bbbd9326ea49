#!/usr/bin/env bash
# The tests of reading, over the lowest versions that pyproject.toml allows: a virtual environment of the machine's Python,
# whose wheels uv fetches from the index that pip is told of. Exit code 3, and a line that says why, where it cannot be made.
# Run by ./check --all, with the servers of the tests in the environment.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
uv_version=0.13.9
# Of every dependency what pgbed uses of it: msgspec and journals, Jinja and pages, numpy and scipy, Textual, psycopg.
tests=(
  tests/engine/journal/test_journal.py tests/engine/report/test_render.py
  tests/engine/report/html tests/engine/view/test_player.py tests/engine/analysis/statistics/test_inference.py
  tests/tui/compare/test_comparison_table.py tests/tui/history/test_listing.py
  tests/engine/postgres/test_pgstat.py::test_a_question_that_the_server_gave_up_fails_no_later_one
)

folder=$(mktemp -d)
chmod 755 "$folder" # servers run as somebody else
trap 'rm -r "$folder"' EXIT
if [ -n "${PIP_INDEX_URL:-}" ]; then export UV_DEFAULT_INDEX=$PIP_INDEX_URL; fi
if [ -n "${PIP_CERT:-}" ]; then export SSL_CERT_FILE=$PIP_CERT; fi

made() {
  local uv=$folder/uv/bin/uv
  /usr/bin/python3 -m venv "$folder/uv"
  "$folder/uv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "uv==$uv_version"
  "$uv" venv --quiet --python /usr/bin/python3 "$folder/lowest"
  install() { "$uv" pip install --quiet --python "$folder/lowest" --only-binary :all: "$@"; }
  install --resolution lowest-direct --requirement pyproject.toml
  install --constraint requirements-dev.lock pytest pytest-timeout hypothesis
  "$uv" pip freeze --quiet --python "$folder/lowest"
}
# `set -e` does not reach into a condition.
(made) > "$folder/log" 2>&1 & # in a shell of its own, where it does
wait "$!" || { echo "no environment of the lowest versions: $(grep -v '^ *$' "$folder/log" | tail -n 1)"; exit 3; }
cat "$folder/log"
"$folder/lowest/bin/python" -m pytest -p no:cacheprovider -m "not outside and not nightly" --durations=5 "${tests[@]}"
