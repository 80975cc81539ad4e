//! The commands of a page. Pure.
//!
//! A fenced block whose first words are `sh GUIDE` has commands of that guide; `sh GUIDE 2` those for its second machine,
//! and `sh GUIDE 1 NAME` those whose output is known on all machines by that name from then on.
//! A block `text GUIDE` right behind it says what they print: `…` stands for anything, and how many blanks are between
//! two words is no matter.

/// Commands of a guide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where they are in the page.
    pub line: usize,
    /// The machine they are for, from 0.
    pub machine: usize,
    /// The commands.
    pub commands: String,
    /// What the page calls what they print, if it is needed on other machines.
    pub name: Option<String>,
    /// What they print, if the page says so.
    pub prints: Option<String>,
}

/// The blocks of a guide, in their order.
pub fn blocks(page: &str, guide: &str) -> Vec<Block> {
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
                let machine = words
                    .next()
                    .and_then(|word| word.parse::<usize>().ok())
                    .unwrap_or(1);
                blocks.push(Block {
                    line: number + 2,
                    machine: machine - 1,
                    name: words.next().map(str::to_owned),
                    commands: body.join("\n"),
                    prints: None,
                });
            }
            (Some("text"), Some(named)) if named == guide => {
                let last = blocks.last_mut().expect("commands before what they print");
                last.prints = Some(body.join("\n"));
            }
            _ => {}
        }
    }
    blocks
}

/// Whether a text is what was expected, line by line.
pub fn is_like(text: &str, expected: &str) -> bool {
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

/// Whether a line has the parts of a pattern between its `…`, in their order, from the first letter to the last.
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
fn a_page_is_taken_apart() {
    let page =
        "text\n```sh a\none\ntwo\n```\n\n```text a\nout …\n```\n```sh b\nother\n```\n```sh a 2\nthree\n```\n";
    let found = blocks(page, "a");
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].commands.as_str(), found[0].line), ("one\ntwo", 3));
    assert_eq!(found[0].prints.as_deref(), Some("out …"));
    assert_eq!((found[1].machine, found[1].prints.clone()), (1, None));
    assert!(is_like("NAME  AGE\nweb   3s\n", "NAME AGE\nweb …s"));
    assert!(!is_like("NAME  AGE\n", "NAME AGE\nweb …s"));
    assert!(matches("a-1 b-2 c", "a-… b-… c") && !matches("a-1 c", "a-… b-… c"));
}
