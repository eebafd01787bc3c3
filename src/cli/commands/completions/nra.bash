# Completion of nra in bash: calls nra complete for the candidates.
_nra() {
    local kind line
    COMPREPLY=()
    {
        IFS= read -r kind
        while IFS= read -r line; do
            COMPREPLY+=("${line%%$'\t'*}")
        done
    } < <("${COMP_WORDS[0]}" complete bash -- "${COMP_LINE:0:COMP_POINT}" 2> /dev/null)
    case "$kind" in
        files) compopt -o default ;;
        directories) compopt -o dirnames ;;
        paths)
            compopt -o filenames
            [[ "${COMPREPLY[0]}" == */ ]] && compopt -o nospace
            ;;
    esac
}
complete -F _nra nra
