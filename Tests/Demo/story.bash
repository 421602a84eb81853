# How the demo speaks: numbered steps, the command that can be typed, what came of it. Plain when nobody watches.

bold="" dim="" green="" red="" off="" tick="ok" cross="FAILED" bullet="-"
if [[ -t 1 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
    bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' off=$'\e[0m'
fi
if [[ $(locale charmap 2> /dev/null) == UTF-8 ]]; then tick="✓" cross="✗" bullet="·"; fi
number=0

title() { printf '\n%s%s%s\n' "$bold" "$1" "$off"; }

step() {
    number=$((number + 1)) name=$1
    printf '\n%s%2d  %s%s\n' "$bold" "$number" "$name" "$off"
}

# The command as a person would type it.
shown() {
    local word line=""
    for word in "$@"; do
        if [[ $word == *" "* ]]; then line+=" \"$word\""; else line+=" $word"; fi
    done
    printf '    %s$%s%s\n' "$dim" "$line" "$off"
}

passed() { printf '    %s%s%s %s\n' "$green" "$tick" "$off" "$1"; }
fact() { printf '    %s %s\n' "$bullet" "$1"; }
quoted() { sed 's/^/      /' "$1"; }
closing() { printf '\n%s%s%s\n\n' "$bold" "$1" "$off"; }

# SENTENCE [LOG]
fail() {
    printf '    %s%s%s %s\n' "$red" "$cross" "$off" "$1"
    if [[ -n ${2:-} && -s $2 ]]; then tail -15 "$2" | sed 's/^/      /'; fi
    printf '\ndemo: step %d (%s): %s\n' "$number" "$name" "$1" >&2
    exit 1
}

# Without the temporary directory's name.
short() { printf '%s' "${1#"$work"/}"; }

human() {
    awk -v n="$1" 'BEGIN {
        if (n < 1024) { printf "%d bytes", n; exit }
        split("KiB MiB GiB", unit); u = 0
        while (n >= 1024 && u < 3) { n /= 1024; u++ }
        printf n < 10 ? "%.1f %s" : "%.0f %s", n, unit[u]
    }'
}
