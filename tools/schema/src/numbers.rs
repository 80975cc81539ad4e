//! Protobuf field numbers by definition.
//!
//! The sources of the `k8s-pb` crate contain them as attributes, which are read as text, since the messages have no
//! reflection. Names there are in snake case, so fields are matched by their letters alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Messages that Go embeds: in JSON, their fields are those of the outer object.
const INLINE: &[&str] = &[
    "volumesource",
    "handler",
    "ephemeralcontainercommon",
    "localobjectreference",
    "ingressrulevalue",
];

/// Fields of a message, by their letters.
type Message = BTreeMap<String, Numbered>;

/// A field with its number.
struct Numbered {
    number: u32,
    /// Last part of the type's name.
    message: Option<String>,
}

/// Renders the table: one definition a line, its name and then `field=number`. A field of an embedded message has
/// both numbers: `field=outer.inner`. A `!` marks a field whose zero value differs from its absence.
pub fn table(definitions: &BTreeMap<String, Value>, pointers: &str) -> Result<String, String> {
    let source = source_folder()?;
    let mut pointers = Pointers::parse(pointers)?;
    let mut packages: BTreeMap<PathBuf, BTreeMap<String, Message>> = BTreeMap::new();
    let mut lines = String::new();
    for (name, definition) in definitions {
        let Some((package, short)) = name.strip_prefix("io.k8s.").and_then(|n| n.rsplit_once('.')) else {
            continue;
        };
        let Some(properties) = definition.get("properties").and_then(Value::as_object) else {
            continue;
        };
        let file = source.join(package.replace('.', "/")).join("mod.rs");
        if !packages.contains_key(&file) {
            packages.insert(file.clone(), messages(&file)?);
        }
        let package = &packages[&file];
        let Some(message) = package.get(&letters(short)) else {
            eprintln!("no message: {name}");
            continue;
        };
        let required = definition["required"].as_array().cloned().unwrap_or_default();
        let mut columns = Vec::new();
        for (field, shape) in properties {
            let Some(numbers) = numbers_of(field, message, package) else {
                if !matches!(field.as_str(), "apiVersion" | "kind") {
                    eprintln!("no number: {short}.{field}");
                }
                continue;
            };
            let path: Vec<String> = numbers.iter().map(u32::to_string).collect();
            let pointer = pointers.take(name, field);
            let keeps_zero = is_scalar(shape) && (pointer || required.iter().any(|r| r == field));
            let mark = if keeps_zero { "!" } else { "" };
            columns.push((numbers, format!(" {field}={}{mark}", path.join("."))));
        }
        columns.sort();
        lines.push_str(name);
        columns.iter().for_each(|(_, column)| lines.push_str(column));
        lines.push('\n');
    }
    pointers.all_used()?;
    Ok(lines)
}

fn numbers_of(field: &str, message: &Message, package: &BTreeMap<String, Message>) -> Option<Vec<u32>> {
    let field = letters(field);
    if let Some(numbered) = message.get(&field) {
        return Some(vec![numbered.number]);
    }
    message
        .iter()
        .filter(|(name, _)| INLINE.contains(&name.as_str()))
        .find_map(|(_, outer)| {
            let inner = package.get(&letters(outer.message.as_deref()?))?.get(&field)?;
            Some(vec![outer.number, inner.number])
        })
}

fn is_scalar(shape: &Value) -> bool {
    matches!(shape["type"].as_str(), Some("string" | "integer" | "boolean"))
}

/// Folder in which cargo keeps the sources of `k8s-pb`, in the version of this crate's lock file.
fn source_folder() -> Result<PathBuf, String> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = Command::new("cargo")
        .args(["metadata", "--format-version=1", "--manifest-path", manifest])
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let package = metadata["packages"]
        .as_array()
        .and_then(|all| all.iter().find(|package| package["name"] == "k8s-pb"))
        .and_then(|package| package["manifest_path"].as_str())
        .ok_or("cargo metadata does not know k8s-pb")?;
    Ok(Path::new(package).with_file_name("src"))
}

/// Messages of a source file, by the letters of their names.
fn messages(file: &Path) -> Result<BTreeMap<String, Message>, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut messages = BTreeMap::new();
    for part in text.split("\npub struct ").skip(1) {
        let (name, rest) = part.split_once('{').ok_or("a struct without a body")?;
        let body = rest.split("\n}").next().unwrap_or_default();
        let body: Vec<&str> = body
            .lines()
            .map(str::trim)
            .filter(|l| !l.starts_with("//"))
            .collect();
        let mut message = Message::new();
        for field in body.join(" ").split("#[prost(").skip(1) {
            let (name, numbered) = numbered(field).ok_or_else(|| format!("not understood: {field}"))?;
            message.insert(name, numbered);
        }
        messages.insert(letters(name), message);
    }
    Ok(messages)
}

/// Reads `string, optional, tag = "1")] pub name: ::core::option::Option<…>,`.
fn numbered(field: &str) -> Option<(String, Numbered)> {
    let (_, rest) = field.split_once("tag = \"")?;
    let (number, rest) = rest.split_once('"')?;
    let (name, kind) = rest.split_once("pub ")?.1.split_once(':')?;
    let message = field.starts_with("message").then(|| {
        let kind = kind.trim_end_matches([',', ' ', '>']);
        kind.rsplit([':', '<']).next().unwrap_or(kind).to_owned()
    });
    let number = number.parse().ok()?;
    Some((
        letters(name.trim_start_matches("r#")),
        Numbered { number, message },
    ))
}

fn letters(name: &str) -> String {
    let kept = name.chars().filter(char::is_ascii_alphanumeric);
    kept.map(|c| c.to_ascii_lowercase()).collect()
}

/// Fields that are pointers in Go, as pairs of the end of a definition's name and a field.
struct Pointers {
    fields: Vec<(String, String)>,
    unused: BTreeSet<(String, String)>,
}

impl Pointers {
    /// Parses lines of `Definition field field …`; `#` starts a comment.
    fn parse(text: &str) -> Result<Pointers, String> {
        let mut fields = Vec::new();
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(definition) = words.next() else { continue };
            fields.extend(words.map(|field| (format!(".{definition}"), field.to_owned())));
        }
        let unused: BTreeSet<_> = fields.iter().cloned().collect();
        match unused.len() == fields.len() {
            true => Ok(Pointers { fields, unused }),
            false => Err("a pointer stands twice".into()),
        }
    }

    fn take(&mut self, name: &str, field: &str) -> bool {
        let found = self
            .fields
            .iter()
            .find(|(d, f)| name.ends_with(d.as_str()) && f == field);
        found
            .inspect(|pair| {
                self.unused.remove(pair);
            })
            .is_some()
    }

    /// Reports pointers without a definition, which are typing mistakes.
    fn all_used(&self) -> Result<(), String> {
        match self.unused.first() {
            None => Ok(()),
            Some((definition, field)) => Err(format!("a pointer without a field: {definition} {field}")),
        }
    }
}
