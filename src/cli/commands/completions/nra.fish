# Completion of nra in fish: calls nra complete for the candidates.
function __nra_complete
    set -l typed (commandline -ct)
    set -l words (commandline -opc)
    set -l lines ($words[1] complete fish -- $words[2..-1] (string unescape -- $typed; or echo -n -- $typed) 2>/dev/null)
    set -l lead (string match -r -- '^--[^=]*=' $typed); or set lead ''
    set -l rest (string replace -r -- '^--[^=]*=' '' $typed)
    switch "$lines[1]"
        case files
            printf '%s\n' $lead(__fish_complete_path $rest)
        case directories
            printf '%s\n' $lead(__fish_complete_directories $rest '')
        case '*'
            printf '%s\n' $lines[2..-1]
    end
end
complete -c nra -f -a '(__nra_complete)'
