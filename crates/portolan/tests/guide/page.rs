//! Command blocks of a page, without I/O.
//!
//! A fenced block with the info string `sh GUIDE` contains commands of a guide. `sh GUIDE 2` selects the
//! second host. `sh GUIDE 1 NAME` stores the output in the shell variable `NAME` on all hosts. The next block
//! `text GUIDE` contains the expected output. `…` matches any text; the number of blanks between words is
//! ignored.

/// Block of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Line of the first command, from 1.
    pub line: usize,
    /// Index of the host, from 0.
    pub host: usize,
    /// Shell commands.
    pub commands: String,
    /// Shell variable for the output.
    pub name: Option<String>,
    /// Expected output, if the page has it.
    pub prints: Option<String>,
}

/// Returns the blocks of a guide in order.
pub(crate) fn blocks(page: &str, guide: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(words) = line.strip_prefix("```") else {
            continue;
        };
        let body: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| !line.starts_with("```"))
            .collect();
        let mut words = words.split_whitespace();
        match (words.next(), words.next()) {
            (Some("sh"), Some(named)) if named == guide => {
                let host = words
                    .next()
                    .and_then(|word| word.parse::<usize>().ok())
                    .unwrap_or(1);
                blocks.push(Block {
                    line: number + 2,
                    host: host - 1,
                    name: words.next().map(str::to_owned),
                    commands: body.join("\n"),
                    prints: None,
                });
            }
            (Some("text"), Some(named)) if named == guide => {
                let last = blocks.last_mut().expect("commands before their output");
                last.prints = Some(body.join("\n"));
            }
            _ => {}
        }
    }
    blocks
}

/// Returns true if a text matches the expected lines.
pub(crate) fn is_like(text: &str, expected: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect()
    };
    let (text, expected) = (lines(text), lines(expected));
    text.len() == expected.len()
        && text
            .iter()
            .zip(&expected)
            .all(|(line, expected)| matches(line, expected))
}

/// Returns true if a complete line matches a pattern, in which `…` stands for any text.
fn matches(line: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn blocks_and_output_are_parsed() {
    let page =
        "text\n```sh a\none\ntwo\n```\n\n```text a\nout …\n```\n```sh b\nother\n```\n```sh a 2\nthree\n```\n";
    let found = blocks(page, "a");
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].commands.as_str(), found[0].line), ("one\ntwo", 3));
    assert_eq!(found[0].prints.as_deref(), Some("out …"));
    assert_eq!((found[1].host, found[1].prints.clone()), (1, None));
    assert!(is_like("NAME  AGE\nweb   3s\n", "NAME AGE\nweb …s"));
    assert!(!is_like("NAME  AGE\n", "NAME AGE\nweb …s"));
    assert!(matches("a-1 b-2 c", "a-… b-… c") && !matches("a-1 c", "a-… b-… c"));
}
