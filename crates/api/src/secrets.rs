//! What is not shown of environments, command lines and quoted documents, anywhere: values whose name or form says that
//! they are secrets. A guess, and rather one too many than one too few; what a task prints is its own affair.

/// A name is taken apart into words (`API_KEY`, `--api-key` and `apiKey` all into `API` and `KEY`); its value is not shown
/// where a word has one of these in it.
const SECRET: [&str; 10] =
    ["SECRET", "TOKEN", "PASS", "KEY", "CREDENTIAL", "CREDS", "AUTH", "COOKIE", "PRIVATE", "DSN"];

/// How words begin that have a secret's word in them and are no secret's.
const NO_SECRET: [&str; 13] = [
    "TOKENIZ", "TOKENIS", "AUTHOR", "PASSES", "PASSAGE", "PASSED", "BYPASS", "COMPASS", "KEYBOARD",
    "KEYFRAME", "KEYPOINT", "KEYWORD", "MONKEY",
];

/// Words that begin like those and are a secret's after all.
const SECRET_AFTER_ALL: [&str; 2] = ["AUTHORIZ", "AUTHORIS"];

/// `TOKENS` are a model's, and no secret, where a name has one of these words anywhere: it counts them.
const COUNTING: [&str; 10] = ["MAX", "MIN", "NUM", "N", "TOTAL", "COUNT", "LIMIT", "BUDGET", "LENGTH", "LEN"];

/// Nor are they where one of these is directly before or after: it says what a model does with them.
const OF_A_MODEL: [&str; 16] = [
    "PROMPT",
    "COMPLETION",
    "INPUT",
    "OUTPUT",
    "CONTEXT",
    "BATCH",
    "BATCHED",
    "TRAIN",
    "TRAINING",
    "EVAL",
    "SPECIAL",
    "STOP",
    "NEW",
    "GENERATED",
    "IMAGE",
    "PER",
];

/// How tokens of well-known services begin.
const KNOWN: [&str; 11] =
    ["hf_", "sk-", "ghp_", "gho_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "ASIA", "eyJ"];

/// The fewest characters such a token has.
const KNOWN_LENGTH: usize = 20;

/// What is shown in place of a secret.
pub const MASK: &str = "••••••";

/// A variable's value, unless its name or form says that it is a secret.
pub fn mask_value(name: &str, value: &str) -> String {
    if is_secret(name) { MASK.into() } else { mask_text(value) }
}

/// A program and its arguments as one line, without the secrets in them.
pub fn mask_command(command: &[String]) -> String {
    let mut flag = "";
    let mut shown = Vec::with_capacity(command.len());
    for argument in command {
        let follows = !flag.is_empty() && !argument.starts_with(['-', '$']);
        shown.push(match argument.split_once(':') {
            _ if follows && is_secret(flag) => MASK.to_owned(),
            Some((user, password)) if follows && !password.is_empty() => format!("{user}:{MASK}"),
            _ => mask_text(argument),
        });
        flag = if takes_secret(argument) { argument } else { "" };
    }
    shown.join(" ")
}

fn is_secret(name: &str) -> bool {
    let words = words(name);
    let counts = words.iter().any(|word| COUNTING.contains(&word.as_str()));
    let beside = |at: Option<usize>| {
        at.and_then(|at| words.get(at)).is_some_and(|word| OF_A_MODEL.contains(&word.as_str()))
    };
    words.iter().enumerate().any(|(at, word)| match word.as_str() {
        "TOKENS" => !counts && !beside(at.checked_sub(1)) && !beside(at.checked_add(1)),
        // Alone it is the directory one is in.
        "PWD" => at > 0,
        word => is_secrets_word(word),
    })
}

fn is_secrets_word(word: &str) -> bool {
    let begins = |with: &[&str]| with.iter().any(|begin| word.starts_with(begin));
    (!begins(&NO_SECRET) || begins(&SECRET_AFTER_ALL)) && SECRET.iter().any(|part| word.contains(part))
}

/// A name's words in capitals: what is between other characters than letters and digits, or begins with a capital after a
/// small letter. `maxtokens` is two as well.
fn words(name: &str) -> Vec<String> {
    let (mut words, mut after_small) = (vec![String::new()], false);
    for c in name.chars() {
        if !c.is_alphanumeric() || (after_small && c.is_uppercase()) {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().expect("there is one").extend(c.to_uppercase());
        }
        after_small = c.is_lowercase();
    }
    let apart = |word: String| match word.strip_suffix("TOKENS") {
        Some(before) if !before.is_empty() => vec![before.to_owned(), "TOKENS".to_owned()],
        _ => vec![word],
    };
    words.into_iter().filter(|word| !word.is_empty()).flat_map(apart).collect()
}

/// Whether what comes after an argument is a secret, or a user and a password.
fn takes_secret(argument: &str) -> bool {
    argument.starts_with('-') && !argument.contains(['=', ' ']) && (is_secret(argument) || is_user(argument))
}

fn is_user(flag: &str) -> bool {
    matches!(flag, "-u" | "--user" | "--proxy-user")
}

/// A text, which may be a line for a shell, without the secrets in it.
pub fn mask_text(text: &str) -> String {
    let (mut out, mut rest, mut begins) = (String::with_capacity(text.len()), text, true);
    while let Some(first) = rest.chars().next() {
        if begins && let Some((before, hidden)) = secret_in(rest) {
            out.push_str(&rest[..before]);
            out.push_str(MASK);
            rest = &rest[before + hidden..];
            begins = false;
            continue;
        }
        out.push(first);
        rest = &rest[first.len_utf8()..];
        begins = first.is_whitespace() || "\"';&|(?,{=@".contains(first);
    }
    out
}

/// If a text begins with something that has a secret: how many bytes come before it, and how many it is.
fn secret_in(text: &str) -> Option<(usize, usize)> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let length = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let (name, after) = text.split_at(length);
    let at = |rest: &str| text.len() - rest.len();
    let spaced = after.trim_start_matches(' ');
    if let Some(value) = after.strip_prefix("://") {
        let authority = &value[..value.find(['/', ' ', '"', '\'']).unwrap_or(value.len())];
        let (who, _) = authority.rsplit_once('@')?;
        let (_, password) = who.split_once(':')?;
        return found(at(value) + who.len() - password.len(), password.len());
    }
    if KNOWN.iter().any(|begin| name.starts_with(begin)) && name.len() >= KNOWN_LENGTH {
        return found(0, name.len());
    }
    if is_user(name) && spaced.len() < after.len() {
        let end = word_end(spaced);
        let colon = spaced[..end].find(':')?;
        return found(at(spaced) + colon + 1, end - colon - 1);
    }
    if matches!(&*name.to_ascii_lowercase(), "bearer" | "basic") && spaced.len() < after.len() {
        return hidden(text, spaced, word_end);
    }
    if name.is_empty() || !is_secret(name) {
        return None;
    }
    if let Some(value) = after.strip_prefix('=') {
        return hidden(text, value, word_end);
    }
    // A line of a job document.
    if let Some(value) = after.trim_start_matches(['"', '\'', ' ']).strip_prefix('=') {
        return hidden(text, value.trim_start(), word_end);
    }
    // A header, or a field of a JSON object: all of it up to the quotes that close it.
    if let Some(value) = after.trim_start_matches(['"', '\'']).strip_prefix(':') {
        return hidden(text, value.trim_start(), |v| v.find(['"', '\'', '\n', '}']).unwrap_or(v.len()));
    }
    let flag = name.starts_with('-') && spaced.len() < after.len() && !spaced.starts_with('-');
    if flag { hidden(text, spaced, word_end) } else { None }
}

/// A value at its place in a text: what is between its quotes, or as much as `end` says.
fn hidden(text: &str, value: &str, end: impl Fn(&str) -> usize) -> Option<(usize, usize)> {
    let before = text.len() - value.len();
    match value.chars().next()? {
        // What a variable has is not in the line.
        '$' => None,
        quote @ ('"' | '\'') => {
            let inside = &value[1..];
            if inside.starts_with('$') {
                return None;
            }
            found(before + 1, inside.find(quote).unwrap_or(inside.len()))
        }
        _ => found(before, end(value)),
    }
}

fn word_end(value: &str) -> usize {
    value.find(|c: char| c.is_whitespace() || "\"';&|)".contains(c)).unwrap_or(value.len())
}

fn found(before: usize, length: usize) -> Option<(usize, usize)> {
    (length > 0).then_some((before, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names whose values are secrets.
    const HIDDEN: &str = "API_KEY wandb_api_key HF_TOKEN DB_PASSWORD AWS_SECRET_ACCESS_KEY AWS_SECRET_KEYS API_TOKENS \
        apiTokens --api-tokens HF_TOKENS TOKENS apitokens USER_ACCESS_TOKENS API_KEYS openAiApiKey APIKEY PGPASSWORD \
        MYSQL_PWD --db-pwd SMTP_PASS GOOGLE_CREDENTIALS AWS_CREDS AUTHORIZATION HTTP_AUTH_HEADER SESSION_COOKIES \
        SSH_PRIVATE_KEY SENTRY_DSN MAX_SECRET_TOKENS MONKEY_KEY TOKENIZER_TOKEN GITHUB_TOKEN_2 oauth2Token";

    /// Names that look like them.
    const SHOWN: &str = "PATH PWD OLDPWD MAX_TOKENS --max-tokens --max-new-tokens maxTokens maxtokens NUM_TOKENS n_tokens \
        --num-speculative-tokens TOKENS_PER_BATCH BATCH_TOKENS --max-num-batched-tokens PROMPT_TOKENS \
        ADD_SPECIAL_TOKENS TOKENS_LIMIT TOKENIZERS_PARALLELISM --tokenizer GIT_AUTHOR_NAME AUTHORS --passes PASSAGES \
        KEYPOINTS --keyframes KEYBOARD --keyword BYPASS_CACHE";

    #[test]
    fn names_tell_secrets_from_what_only_looks_like_them() {
        for name in HIDDEN.split_whitespace() {
            assert!(is_secret(name), "{name} is shown");
        }
        for name in SHOWN.split_whitespace() {
            assert!(!is_secret(name), "{name} is hidden");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(mask_value("API_TOKENS", "hunter2,hunter3"), MASK);
        assert_eq!(mask_value("URL", "postgres://ann:hunter2@db/x"), "postgres://ann:••••••@db/x");
        assert_eq!(mask_value("HUB", "hf_abcdefghijklmnopqrstuvwxyz"), MASK);
        for (name, value) in [
            ("PATH", "/usr/bin:/bin"),
            ("URL", "https://host/a:b@c"),
            ("TOKENIZERS_PARALLELISM", "false"),
            ("MAX_TOKENS", "512"),
        ] {
            assert_eq!(mask_value(name, value), value);
        }
    }

    #[test]
    fn secrets_in_command_lines_are_not_shown() {
        let line = |words: &[&str]| mask_command(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        for words in [
            &["train", "--token=hunter2"][..],
            &["train", "--api-key", "hunter2"],
            &["curl", "-H", "Authorization: Bearer hunter2", "host"],
            &["curl", "-u", "ann:hunter2", "host"],
            &["sh", "-c", "API_KEY=hunter2 python train.py"],
            &["sh", "-c", "export WANDB_API_KEY='hunter2 x'; run"],
            &["sh", "-c", "curl -H \"X-Api-Key: hunter2\" -H 'Authorization: Bearer hunter2' host | sh"],
            &["sh", "-c", "mysql --password hunter2 && curl -u ann:hunter2 'https://h/?token=hunter2&n=1'"],
            &["sh", "-c", "git clone https://ann:hunter2@host/x"],
            &["curl", "-d", "{\"password\": \"hunter2\", \"n\": 1}"],
            &["echo", "ghp_hunter2hunter2hunter2"],
            &["env = { API_KEY = \"hunter2\", \"DB_PASSWORD\"= 'hunter2', MYSQL_PWD = \"hunter2\" }"],
        ] {
            let shown = line(words);
            assert!(!shown.contains("hunter2") && shown.contains(MASK), "{words:?}: {shown}");
        }
        assert_eq!(
            line(&["sh", "-c", "A_TOKEN=x python t.py --lr 0.1"]),
            "sh -c A_TOKEN=•••••• python t.py --lr 0.1"
        );
        assert_eq!(
            line(&["curl", "-H", "Authorization: Bearer x", "host"]),
            "curl -H Authorization: •••••• host"
        );
    }

    #[test]
    fn what_is_no_secret_is_shown() {
        for words in [
            &["python", "train.py", "--tokenizer", "bert", "--max-tokens=512"][..],
            &["sh", "-c", "login --token $HF_TOKEN --password \"$PW\" ; echo a:b"],
            &["sort", "-u", "a.txt"],
            &["scp", "ann@host:/x", "."],
        ] {
            let words: Vec<_> = words.iter().map(|w| (*w).to_owned()).collect();
            assert_eq!(mask_command(&words), words.join(" "));
        }
    }
}
