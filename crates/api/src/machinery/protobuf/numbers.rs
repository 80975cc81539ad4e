//! The generated table of field numbers, parsed at first use.

use std::sync::OnceLock;

use crate::machinery::schema::{Definition, DefinitionId, Schema, Shape, schema};

/// One definition in each line: its name, followed by `field=number` entries (see `tools/schema`).
const NUMBERS_TEXT: &str = include_str!("numbers.txt");

/// Field numbers of all definitions.
#[derive(Debug)]
pub(super) struct Numbers {
    /// Messages by definition ID; empty for definitions without a message.
    messages: Vec<Vec<NumberedField>>,
}

/// Field number in a message.
#[derive(Debug)]
pub(super) struct NumberedField {
    pub(super) number: u32,
    /// Target of the field number.
    pub(super) target: Target,
}

/// Target of a field number.
#[derive(Debug)]
pub(super) enum Target {
    /// A field.
    Field {
        /// Position in [`Definition::fields`].
        position: usize,
        /// True if zero values (`false`, 0 and "") are kept; otherwise they mean absence.
        keeps_zero: bool,
    },
    /// A message whose fields belong to the parent object in JSON.
    Inline(Vec<NumberedField>),
}

/// Returns the table.
pub(super) fn numbers() -> &'static Numbers {
    static NUMBERS: OnceLock<Numbers> = OnceLock::new();
    NUMBERS.get_or_init(|| parse(NUMBERS_TEXT, schema()))
}

impl Numbers {
    /// Returns the field numbers of a definition, sorted.
    pub(super) fn of(&self, id: DefinitionId) -> &[NumberedField] {
        self.messages.get(id.index()).map_or(&[], Vec::as_slice)
    }
}

/// Returns the target of a field number.
pub(super) fn find(numbered: &[NumberedField], number: u32) -> Option<&Target> {
    let index = numbered
        .binary_search_by_key(&number, |entry| entry.number)
        .ok()?;
    numbered.get(index).map(|entry| &entry.target)
}

/// Parses the table. Unknown definitions and fields are skipped; a test checks that there are none.
fn parse(text: &str, schema: &Schema) -> Numbers {
    let mut messages = Vec::new();
    messages.resize_with(schema.len(), Vec::new);
    for line in text.lines() {
        let mut columns = line.split(' ');
        let Some(Shape::Object(id)) = columns.next().and_then(|name| schema.shape(name)) else {
            continue;
        };
        let Some(message) = messages.get_mut(id.index()) else {
            continue;
        };
        let definition = schema.get(id);
        for column in columns {
            add_entry(message, column, definition);
        }
    }
    Numbers { messages }
}

/// Adds an entry to a message: `field=number` or `field=outer.inner`, with a suffix `!` to keep zero values. Entries
/// are sorted by number.
fn add_entry(message: &mut Vec<NumberedField>, column: &str, definition: &Definition) -> Option<()> {
    let (name, path) = column.split_once('=')?;
    let (path, keeps_zero) = path.strip_suffix('!').map_or((path, false), |path| (path, true));
    let position = definition.position(name)?;
    let field = |number: &str| {
        Some(NumberedField {
            number: number.parse().ok()?,
            target: Target::Field { position, keeps_zero },
        })
    };
    let Some((outer, inner)) = path.split_once('.') else {
        message.push(field(path)?);
        return Some(());
    };
    let number = outer.parse().ok()?;
    let inner = field(inner)?;
    match message.last_mut() {
        Some(NumberedField {
            number: last,
            target: Target::Inline(fields),
        }) if *last == number => fields.push(inner),
        _ => message.push(NumberedField {
            number,
            target: Target::Inline(vec![inner]),
        }),
    }
    Some(())
}

#[cfg(test)]
mod tests;
