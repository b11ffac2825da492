#!/bin/sh
# Runs one task on a machine of the pool: measures it if there is a Python, and checks its outputs. Written by Tonnage.
#   task.sh MONITOR SUMMARY FOLDER COMMAND [OUTPUT ...]
# An absolute FOLDER receives the partial outputs of a failed task. If it is relative, files are transferred: it is the
# task's own folder on this machine, with its inputs, and is sent back with the outputs of a successful task and nothing
# else. The monitor stops a task that uses more memory than the machine allocated.
monitor=$1 summary=$2 folder=$3 command=$4
shift 4
case $folder in /*) travels= ;; *) travels=1 ;; esac
if [ "$travels" ]; then
    monitor=$PWD/$monitor summary=$PWD/$summary
    mkdir -p "$folder" && cd "$folder" || exit 125
fi

amount() { sed -n "s/^$1 = \([0-9][0-9]*\).*/\1/p" "${_CONDOR_MACHINE_AD:-/dev/null}" 2>/dev/null | tail -n 1; }
limit=
memory=$(amount Memory)
if [ -n "$memory" ] && [ "$memory" -gt 32 ]; then
    TONNAGE_MEMORY=$(((memory - 32) * 1048576)) # the rest is for the monitor
    export TONNAGE_MEMORY
    limit=$TONNAGE_MEMORY
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

[ "$travels" ] || (umask 077 && : >"$folder.begun") # newer files were written by this task
if [ -n "$python" ]; then
    "$python" -I "$monitor" --summary "$summary" --dir "${_CONDOR_SCRATCH_DIR:-.}" ${limit:+--limit "memory=${limit}B"} \
        -- /bin/sh -c "$command"
else
    /bin/sh -c "$command"
fi
status=$?
[ -e "$summary" ] || (umask 077 && : >"$summary") # not measured, but files to be sent back must exist
case $status in 126) status=127 ;; esac

if [ "$status" -eq 0 ]; then
    for output; do
        [ -e "$output" ] && continue
        echo "tonnage: it succeeded, but did not write $output" >&2
        status=1
    done
fi
if [ "$travels" ]; then
    cd .. && mv "$folder" "$folder.used" && mkdir "$folder" || exit 125
    if [ "$status" -eq 0 ]; then
        for output; do
            [ -e "$folder/$output" ] && continue # already moved with its folder
            mkdir -p "$folder/$(dirname "./$output")" && mv "$folder.used/$output" "$folder/$output" || status=1
        done
    fi
else
    if [ "$status" -ne 0 ]; then
        for output; do
            case $output in /*) place=$folder$output ;; *) place=$folder/$output output=./$output ;; esac
            if [ -n "$(find "$output" -prune -newer "$folder.begun" 2>/dev/null)" ]; then
                (umask 077 && mkdir -p "$(dirname "$place")") && mv "$output" "$place"
            fi
        done
    fi
    rm -f "$folder.begun"
fi
exit "$status"
