//! Locations in an object, for messages.

use crate::machinery::schema::Definition;

/// A location in the object, linked to its parents. It is formatted for an error only.
pub(super) struct Location<'a> {
    pub(super) parent: Option<&'a Location<'a>>,
    pub(super) step: Step<'a>,
}

/// Step of the path to a value.
pub(super) enum Step<'a> {
    /// The object itself.
    Root,
    /// A field of an object type.
    Field { owner: &'a Definition, name: &'a str },
    /// An entry of a map.
    Key(&'a str),
    /// An item of a list.
    Index(usize),
}

impl Location<'_> {
    /// Returns the location of the object itself.
    pub(super) fn root() -> Self {
        Self {
            parent: None,
            step: Step::Root,
        }
    }

    /// Returns the path of a field at this location, with list indexes.
    pub(super) fn path_to(&self, name: &str) -> String {
        let mut path = String::new();
        self.write_path(&mut path, true);
        if !path.is_empty() {
            path.push('.');
        }
        path + name
    }

    /// Appends the path of this location.
    pub(super) fn write_path(&self, path: &mut String, with_indexes: bool) {
        if let Some(parent) = self.parent {
            parent.write_path(path, with_indexes);
        }
        match self.step {
            Step::Root => {}
            Step::Field { name, .. } | Step::Key(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            Step::Index(index) if with_indexes => {
                path.push_str(&format!("[{index}]"));
            }
            Step::Index(_) => {}
        }
    }

    /// Returns the innermost object type that contains this location.
    pub(super) fn owner(&self) -> Option<&Definition> {
        match self.step {
            Step::Field { owner, .. } => Some(owner),
            _ => self.parent.and_then(Location::owner),
        }
    }
}
