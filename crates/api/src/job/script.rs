//! Job names derived from commands: `python train.py`, `./train.sh` and `python -m project.train` are all `train`.

use super::Command;

/// Programs that run a script named by their first argument.
const INTERPRETERS: [&str; 14] = [
    "python", "pypy", "bash", "sh", "dash", "zsh", "ksh", "fish", "perl", "ruby", "node", "julia", "Rscript",
    "lua",
];

/// Programs that launch another. Their options may take values, so that only an unmistakable script or module among
/// their arguments counts.
const LAUNCHERS: [&str; 9] =
    ["torchrun", "accelerate", "deepspeed", "mpirun", "uv", "poetry", "conda", "nice", "timeout"];

/// Commands that may precede a program.
const PREFIXES: [&str; 4] = ["env", "nohup", "time", "exec"];

/// Extensions of scripts.
const ENDINGS: [&str; 11] =
    [".py", ".sh", ".bash", ".zsh", ".fish", ".pl", ".rb", ".js", ".jl", ".R", ".lua"];

/// Shell builtins, which say nothing about the job.
const BUILTINS: [&str; 14] = [
    "cd", "echo", "eval", "exit", "export", "false", "kill", "printf", "read", "set", "test", "true",
    "ulimit", "wait",
];

/// Keywords of a shell's compound commands.
const KEYWORDS: [&str; 11] =
    ["case", "do", "done", "else", "esac", "fi", "for", "if", "then", "until", "while"];

/// Characters that make a shell command more than one simple command.
const SHELL: &str = ";&|<>()$`\"'\\*?[]{}~#\n";

impl Command {
    /// The name of its script, or of its program.
    pub(super) fn script_name(&self) -> Option<String> {
        match self {
            Self::List(words) => of_words(&words.iter().map(String::as_str).collect::<Vec<_>>()),
            Self::Shell(line) => {
                of_line(line).or_else(|| of_several(line)).or_else(|| base(line.split_whitespace().next()?))
            }
        }
    }
}

/// The name in a shell command that is one simple command.
fn of_line(line: &str) -> Option<String> {
    // `%{index}` is filled in by the scheduler and means nothing to a shell.
    let plain = !line.replace("%{index}", "").replace("%{job}", "").contains(|c| SHELL.contains(c));
    plain.then(|| of_words(&line.split_whitespace().collect::<Vec<_>>())).flatten()
}

/// The first telling name in a shell command of several: `cd /data && python train.py` is `train`.
fn of_several(line: &str) -> Option<String> {
    // What is quoted is an argument of one command, whatever characters it has.
    let mut quote = None;
    let parts = line.split(move |c| {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
        quote.is_none() && ['\n', ';', '&', '|'].contains(&c)
    });
    let parts = parts.map(str::trim);
    let is_telling = |name: &String| ![&BUILTINS[..], &KEYWORDS].concat().contains(&name.as_str());
    parts.filter_map(of_line).find(is_telling)
}

fn of_words(words: &[&str]) -> Option<String> {
    let is_prefix = |word: &&&str| PREFIXES.contains(&base_of(word)) || is_assignment(word);
    let skipped = words.iter().take_while(is_prefix).count();
    // A job that runs nothing but `env` is called so.
    let words = if skipped < words.len() { &words[skipped..] } else { words };
    let (program, arguments) = words.split_first()?;
    let program = base_of(program);
    let found = if is_interpreter(program) {
        interpreted(arguments)
    } else if LAUNCHERS.contains(&program) {
        launched(arguments)
    } else {
        None
    };
    found.or_else(|| base(program))
}

/// The script or module in an interpreter's arguments.
fn interpreted(arguments: &[&str]) -> Option<String> {
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        match argument {
            "-m" => return module(rest.next()?),
            "-c" => return of_line(rest.next()?).filter(|name| !BUILTINS.contains(&name.as_str())),
            // Python's options with a value of its own.
            "-W" | "-X" => _ = rest.next(),
            "--" => {}
            "-" => return None,
            option if option.starts_with('-') => {}
            script => return base(script),
        }
    }
    None
}

/// The script or module in a launcher's arguments.
fn launched(arguments: &[&str]) -> Option<String> {
    for (at, &argument) in arguments.iter().enumerate() {
        if argument == "-m" {
            return module(arguments.get(at + 1)?);
        }
        if is_interpreter(base_of(argument)) {
            return interpreted(&arguments[at + 1..]);
        }
        if ENDINGS.iter().any(|ending| argument.ends_with(ending)) {
            return base(argument);
        }
    }
    None
}

fn is_interpreter(program: &str) -> bool {
    let unversioned = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(&unversioned) || INTERPRETERS.contains(&program)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn module(name: &str) -> Option<String> {
    let name = name.strip_suffix(".__main__").unwrap_or(name);
    name.rsplit('.').next().filter(|last| !last.is_empty()).map(str::to_owned)
}

fn base_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The base name of a file, without the extension of a script.
fn base(path: &str) -> Option<String> {
    let name = base_of(path);
    let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).filter(|stem| !stem.is_empty());
    let name = stem.unwrap_or(name);
    (!name.is_empty() && !name.contains("%{")).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_called_as_its_script() {
        for (line, name) in [
            ("python train.py", "train"),
            ("python3.11 -u -W ignore /home/ann/train.py --fold 3", "train"),
            ("python -m project.train", "train"),
            ("python -m project.__main__", "project"),
            ("python", "python"),
            ("python -", "python"),
            ("./run.sh 7", "run"),
            ("bash run.sh", "run"),
            ("sh -c nvidia-smi", "nvidia-smi"),
            ("sh -c true", "sh"),
            ("/usr/bin/nvidia-smi", "nvidia-smi"),
            ("env A=1 B=2 python train.py", "train"),
            ("CUDA_LAUNCH_BLOCKING=1 ./train", "train"),
            ("torchrun --nproc-per-node 2 train.py", "train"),
            ("uv run python train.py", "train"),
            ("accelerate launch -m project.fit", "fit"),
            ("nice -n 10 ./work", "nice"),
            ("env", "env"),
            ("./t.sh %{index}", "t"),
            ("python %{index}.py", "python"),
        ] {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(Command::List(words).script_name().as_deref(), Some(name), "{line}");
        }
    }

    #[test]
    fn a_text_for_a_shell_is_called_as_the_first_command_that_says_something() {
        let shell = |line: &str| Command::Shell(line.to_owned()).script_name();
        assert_eq!(shell("python train.py --fold %{index}").as_deref(), Some("train"));
        assert_eq!(shell("python a.py && python b.py").as_deref(), Some("a"));
        assert_eq!(shell("cd /data && python train.py").as_deref(), Some("train"));
        assert_eq!(shell("for i in 1 2; do ./step.sh $i; done; ./report").as_deref(), Some("report"));
        assert_eq!(shell("echo \"a; b\"").as_deref(), Some("echo"));
        assert_eq!(shell("echo 'a; b; c'; ./report").as_deref(), Some("report"));
        assert_eq!(shell("bash -c 'id; pwd; env'").as_deref(), Some("bash"));
        let list = |script: &str| Command::List(["bash", "-c", script].map(str::to_owned).into());
        assert_eq!(list("python train.py").script_name().as_deref(), Some("train"));
        assert_eq!(list("cd /data; python train.py").script_name().as_deref(), Some("bash"));
        assert_eq!(list("").script_name().as_deref(), Some("bash"));
        assert_eq!(Command::default().script_name(), None);
    }
}
