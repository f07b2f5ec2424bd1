# fish completion of posthaste
function __posthaste_find
    set -l words (commandline -opc) (commandline -ct)
    set -g __posthaste_found (command $words[1] __complete -- $words[2..-1] 2>/dev/null)
    test (count $__posthaste_found) -gt 0
end
# Files are offered where the program knows no words.
complete -c posthaste -n __posthaste_find -f -a '$__posthaste_found'
