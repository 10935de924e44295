# Installs the wheel for this system from a folder into an empty virtual environment, with binary
# packages only, and analyzes a trace with it. Says how long that took and how large it is.
# usage: sh tests/try_wheel.sh PYTHON FOLDER
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" -m venv "$folder/venv"
begin=$(date +%s)
pip() { "$folder/venv/bin/python" -m pip install --disable-pip-version-check -qq --only-binary :all: "$@"; }
# This wheel and no other, then what it needs.
pip --no-index --no-deps --find-links "$2" torch-tracekit
pip torch-tracekit
installed=$(date +%s)
trace=$(cd "$(dirname "$0")" && pwd)/data/simulated-overhead-bound.json.gz
(cd "$folder" && venv/bin/torch-tracekit analyze "$trace" >first.txt)
done=$(date +%s)
head -n 1 "$folder/first.txt"
echo "installed in $((installed - begin)) s, $(du -sm "$folder/venv" | cut -f1) MB;" \
  "first verdict in $((done - installed)) s"
