#compdef nra
# Completion of nra in zsh: calls nra complete for the candidates.
_nra() {
    local -a lines values shown directories
    local line
    lines=("${(@f)$("${words[1]}" complete zsh -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2> /dev/null)}")
    case "${lines[1]}" in
        files | directories)
            [[ "$PREFIX" == --*=* ]] && compset -P '*='
            if [[ "${lines[1]}" == files ]]; then _files; else _files -/; fi
            return
            ;;
        paths)
            values=("${(@)${(@)lines[2,-1]}:#*/}")
            directories=("${(@M)${(@)lines[2,-1]}:#*/}")
            (( $#directories )) && compadd -S '' -a directories
            (( $#values )) && compadd -a values
            return
            ;;
    esac
    for line in "${(@)lines[2,-1]}"; do
        values+=("${line%%$'\t'*}")
        shown+=("${line/$'\t'/  -- }")
    done
    (( $#values )) && compadd -l -d shown -a values
}
if [[ "$funcstack[1]" == _nra ]]; then
    _nra "$@"
else
    compdef _nra nra
fi
