#!/bin/sh
# One task on a machine of the pool: measured where there is a Python for it, its outputs looked at. Written by Tonnage.
#   task.sh MONITOR SUMMARY PARTIAL LIMITED COMMAND [OUTPUT ...]
# PARTIAL is where outputs go that a failure has left; with - this folder is the machine's own, and the outputs of a
# success are put into made/, from where they travel back. With LIMITED 1 the monitor stops what takes too much memory;
# with 0 that is left to the pool.
monitor=$1 summary=$2 partial=$3 limited=$4 command=$5
shift 5

amount() { sed -n "s/^$1 = \([0-9][0-9]*\).*/\1/p" "${_CONDOR_MACHINE_AD:-/dev/null}" 2>/dev/null | tail -n 1; }
limit=
memory=$(amount Memory)
if [ -n "$memory" ] && [ "$memory" -gt 32 ]; then
    TONNAGE_MEMORY=$(((memory - 32) * 1048576)) # the rest is for the monitor
    export TONNAGE_MEMORY
    [ "$limited" = 1 ] && limit=$TONNAGE_MEMORY
fi
cores=$(amount Cpus)
[ -n "$cores" ] && TONNAGE_CORES=$cores && export TONNAGE_CORES

python=
for one in "$TONNAGE_PYTHON" python3; do
    if [ -n "$one" ] && "$one" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        python=$one
        break
    fi
done

[ "$partial" = - ] || : >"$partial.begun" # what is newer than this was written by this task
if [ -n "$python" ]; then
    "$python" -I "$monitor" --summary "$summary" --dir "${_CONDOR_SCRATCH_DIR:-.}" ${limit:+--limit "memory=${limit}B"} \
        -- /bin/sh -c "$command"
else
    /bin/sh -c "$command"
fi
status=$?
[ -e "$summary" ] || : >"$summary" # nobody measured; what is to travel back must be there
case $status in 126) status=127 ;; esac

if [ "$status" -eq 0 ]; then
    for output; do
        [ -e "$output" ] && continue
        echo "tonnage: it succeeded, but did not write $output" >&2
        status=1
    done
fi
if [ "$partial" = - ]; then
    mkdir made
    if [ "$status" -eq 0 ]; then
        for output; do
            mkdir -p "made/$(dirname "./$output")" && mv "./$output" "made/$output" || status=1
        done
    fi
else
    if [ "$status" -ne 0 ]; then
        for output; do
            case $output in /*) place=$partial$output ;; *) place=$partial/$output output=./$output ;; esac
            if [ -n "$(find "$output" -prune -newer "$partial.begun" 2>/dev/null)" ]; then
                mkdir -p "$(dirname "$place")" && mv "$output" "$place"
            fi
        done
    fi
    rm -f "$partial.begun"
fi
exit "$status"
