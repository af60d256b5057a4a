"""The watchers of files, commands, tests and Git: what they report, and what they do not."""

from typing import Final

from tests.conformance.entry import Rules, Source, rules

FILES: Final[Rules] = rules(
    Source.OURS,
    {
        "watch:files:change-told": "A file that is changed, created or deleted is told with its relative path and with what to do about it.",
        "watch:files:constant-change-told": "A file that changes without a pause is told nevertheless.",
        "watch:files:no-op-save-is-silent": "A save that leaves the bytes of a file as they were is not told, nor is a file that is created and deleted at once.",
        "watch:files:unknown-content-counts-as-changed": "A file whose content at the start is not known counts as changed when it is touched.",
        "watch:files:ignored-is-silent": "Files that Git ignores, the files of Git itself, caches and the temporary files of editors are not told.",
        "watch:files:hostile-patterns": "No ignore pattern makes matching slow; a pattern with more than three `**` is not used and a warning is logged.",
        "watch:files:gitignore-change": "A change of a `.gitignore` takes effect on the changes after it.",
        "watch:files:named-root-is-watched": "The ignore rules of the enclosing repository apply below the watched directory, but not to that directory itself.",
        "watch:files:links-not-followed": "A directory that is reached through a symbolic link is not watched.",
        "watch:files:many-collapse": "More than 20 changes at once are reported in one notice for each top directory, with the number of files, what happened to them and the first names.",
        "watch:files:names-printable": "Characters of a file name that cannot be printed, and bytes that are not UTF-8, are shown as escapes.",
        "watch:files:directory-moves": "When a directory is moved into or out of the watched one, each of its files is told.",
        "watch:files:single-file": "A single file can be watched, even if it is ignored, and is told when it is deleted and created again.",
        "watch:files:vanished-root": "A watch ends when its directory no longer exists; a watcher of files tells them as deleted before.",
        "watch:files:replaced-root": "A directory that is replaced by another one of the same name is watched again, and the difference is reported.",
        "watch:files:unreadable-part": "If a part of the directory cannot be read, the rest is compared every second and a warning is logged; a root that cannot be read is refused.",
        "watch:files:polling-fallback": "If the operating system refuses to watch a directory, the directory is polled and a warning is logged.",
        "watch:files:interrupted-watch": "Changes that were made while the watch was interrupted are told when it is established again.",
        "watch:files:extra-missing": "A package that a watcher needs and that is not installed is named with the command that installs it.",
    },
)

COMMANDS: Final[Rules] = rules(
    Source.OURS,
    {
        "watch:command:results-told": "A command runs in the watched directory at the start and after each change, and each result is told, except that of a first run that passes.",
        "watch:command:transitions-only": "With `transitions_only` a result is told only if the run before it ended otherwise.",
        "watch:command:single-flight": "A change during a run kills it with all its processes and starts the command again, so that two runs never overlap.",
        "watch:command:last-content-wins": "However often a file changes during runs, the last result is that of its last content.",
        "watch:command:own-output": "A command that writes into the watched directory does not start itself for ever, and the notice names the files that were taken as its output.",
        "watch:command:new-names-reported": "After three runs in a row without a result, changes no longer kill the run, whichever files they are: its result is reported.",
        "watch:command:changed-during-run": "A result is not said to be after the last change if a file has changed during the run: the notice names the file and says that the command runs again, and the next result is reported.",
        "watch:command:secrets-masked": "Secrets are masked in the whole output before lines are chosen and cut, and in the command line, its name and the keys of notices.",
        "watch:command:failure-lines": "A failure is told with how the command ended and with the lines of its output that explain it, bounded, printable and with secrets masked.",
        "watch:command:cannot-start": "A command that cannot be started is told once and tried again after the next change.",
        "watch:command:time-out": "A command that exceeds its time-out is killed and told as timed out.",
        "watch:command:close-ends-everything": "Closing a watcher ends its threads, its tasks and the processes that it has started, and removes its temporary files.",
    },
)

SUITES: Final[Rules] = rules(
    Source.OURS,
    {
        "watch:tests:changes-by-file": "Tests that start or stop failing are told in one notice for each file, with the first line of each new failure.",
        "watch:tests:green-is-silent": "A run in which no test starts or stops failing is not told.",
        "watch:tests:no-results": "A run without a new and readable report, or that fails without a failing test, is told with the reason, and so is the next run with results.",
        "watch:tests:pytest-needs-no-junit": "pytest needs no option for its report: it writes to a temporary file, or to the file that the command or `junit` names.",
        "watch:tests:junit-required": "For a runner other than pytest, the file of its report must be named.",
        "watch:tests:hostile-xml": "A report that is too large, is not valid XML, has an encoding that cannot be read or has a document type declaration is refused, and the watch goes on.",
        "watch:tests:many-files-collapse": "Changes in more than 20 files of tests are told in one notice with their numbers.",
    },
)

GIT: Final[Rules] = rules(
    Source.OURS,
    {
        "watch:git:branch-moved": "A branch that moves is told with both commits, the number of new and lost commits and the first subjects; other branches, tags, stashes and the index are not told.",
        "watch:git:rebase-once": "A rebase is told once, when it has ended.",
        "watch:git:switched": "A switch to another branch, to a detached HEAD and back is told.",
        "watch:git:upstream": "When the upstream branch moves or is merged, the notice says how the branch compares with it.",
        "watch:git:conflicts": "Merge conflicts are told with the names of the files when they start and change, and when the last one ends.",
        "watch:git:layouts": "The watcher works with packed references, in a worktree, from a subdirectory, and with the environment of a hook.",
        "watch:git:subjects-untrusted": "Subjects of commits are shortened, and their control characters are shown as escapes.",
        "watch:git:not-a-repository": "A directory that is not in a Git repository is refused, and so is any directory if git is not installed.",
        "watch:git:runs-no-configured-program": "git runs no program that the configuration of the repository names, and fetches nothing, whatever that configuration says.",
        "watch:git:unreadable-is-silent": "While git cannot read the repository, nothing is reported; the watch ends when the repository or its worktree is removed.",
    },
)
