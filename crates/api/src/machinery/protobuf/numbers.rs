//! The generated table of field numbers, read at first use.

use std::sync::OnceLock;

use crate::machinery::schema::{Definition, DefinitionId, Schema, Shape, schema};

/// One definition a line: its name and then `field=number` (see `tools/schema`).
const NUMBERS_TEXT: &str = include_str!("numbers.txt");

/// The field numbers of all definitions.
#[derive(Debug)]
pub(super) struct Numbers {
    /// By number of the definition; empty for one that no message exists of.
    messages: Vec<Vec<Numbered>>,
}

/// A field number of a message.
#[derive(Debug)]
pub(super) struct Numbered {
    pub(super) number: u32,
    /// What stands there.
    pub(super) target: Target,
}

/// What stands at a field number.
#[derive(Debug)]
pub(super) enum Target {
    /// A field.
    Field {
        /// Its position in [`Definition::fields`].
        position: usize,
        /// `false`, 0 and "" are values; for other fields they mean that the field is absent.
        keeps_zero: bool,
    },
    /// A message whose fields stand, in JSON, in the object around it.
    Inline(Vec<Numbered>),
}

/// The table.
pub(super) fn numbers() -> &'static Numbers {
    static NUMBERS: OnceLock<Numbers> = OnceLock::new();
    NUMBERS.get_or_init(|| load(NUMBERS_TEXT, schema()))
}

impl Numbers {
    /// The field numbers of a definition, sorted.
    pub(super) fn of(&self, id: DefinitionId) -> &[Numbered] {
        self.messages.get(id.index()).map_or(&[], Vec::as_slice)
    }
}

/// What stands at `number`.
pub(super) fn find(numbered: &[Numbered], number: u32) -> Option<&Target> {
    let at = numbered.binary_search_by_key(&number, |n| n.number).ok()?;
    numbered.get(at).map(|n| &n.target)
}

/// Reads the table. A line or a column that the schema does not know is passed over; a test sees to it that there
/// is none.
fn load(text: &str, schema: &Schema) -> Numbers {
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
            place(message, column, definition);
        }
    }
    Numbers { messages }
}

/// Enters `field=number`, `field=outer.inner` or one of them with `!` into a message. Columns are sorted by number.
fn place(message: &mut Vec<Numbered>, column: &str, definition: &Definition) -> Option<()> {
    let (name, path) = column.split_once('=')?;
    let (path, keeps_zero) = path.strip_suffix('!').map_or((path, false), |path| (path, true));
    let position = definition.position(name)?;
    let field = |number: &str| {
        Some(Numbered {
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
        Some(Numbered {
            number: last,
            target: Target::Inline(fields),
        }) if *last == number => fields.push(inner),
        _ => message.push(Numbered {
            number,
            target: Target::Inline(vec![inner]),
        }),
    }
    Some(())
}

#[cfg(test)]
mod tests;
