# bash completion of posthaste
_posthaste() {
    # Not COMP_WORDS: bash cuts those at every : and =, as in a URL.
    local IFS=$' \t\n' line="${COMP_LINE:0:COMP_POINT}" words
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    IFS=$'\n'
    COMPREPLY=($("${words[0]/#\~/$HOME}" __complete -- "${words[@]:1}" 2>/dev/null))
}
complete -o bashdefault -o default -F _posthaste posthaste
