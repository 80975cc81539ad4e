//! Parser of the merge rules, which become `x-kubernetes-*` extensions of the definitions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Rules by definition and field.
pub struct Rules {
    by_field: BTreeMap<(String, String), Map<String, Value>>,
    unused: BTreeSet<(String, String)>,
}

/// Parses lines of `Definition.field word word …`; `#` starts a comment.
pub fn parse(text: &str) -> Result<Rules, String> {
    let mut by_field = BTreeMap::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(target) = words.next() else { continue };
        let (definition, field) = target
            .rsplit_once('.')
            .ok_or_else(|| format!("no field in {line:?}"))?;
        let mut extensions = Map::new();
        for word in words {
            extensions.extend(extension(word).ok_or_else(|| format!("unknown word {word:?} in {line:?}"))?);
        }
        let key = (definition.to_owned(), field.to_owned());
        if by_field.insert(key, extensions).is_some() {
            return Err(format!("{target} stands twice"));
        }
    }
    let unused = by_field.keys().cloned().collect();
    Ok(Rules { by_field, unused })
}

/// Extensions for one word of the table.
fn extension(word: &str) -> Option<Map<String, Value>> {
    let (name, argument) = word.split_once('=').unwrap_or((word, ""));
    let keys = || argument.split(',').collect::<Vec<_>>();
    let value = match name {
        "atomic" => json!({"x-kubernetes-list-type": "atomic"}),
        "set" => json!({"x-kubernetes-list-type": "set"}),
        "map" => json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys()}),
        "atomic-map" => json!({"x-kubernetes-map-type": "atomic"}),
        "merge" if argument.is_empty() => json!({"x-kubernetes-patch-strategy": "merge"}),
        "merge" => json!({"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": argument}),
        "merge+retain" => {
            json!({"x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": argument})
        }
        "retain" => json!({"x-kubernetes-patch-strategy": "retainKeys"}),
        "default" => json!({"default": argument}),
        _ => return None,
    };
    match value {
        Value::Object(map) => Some(map),
        _ => None,
    }
}

impl Rules {
    /// Adds the rules for the definition `name` (full name) to it. A rule for `Name.*` concerns the definition
    /// itself.
    pub fn apply(&mut self, name: &str, definition: &mut Value) -> Result<(), String> {
        let short = name.rsplit('.').next().unwrap_or(name);
        for ((rule_definition, field), extensions) in &self.by_field {
            if rule_definition != short {
                continue;
            }
            let target = match field.as_str() {
                "*" => Some(&mut *definition),
                field => definition.get_mut("properties").and_then(|p| p.get_mut(field)),
            };
            let target = target
                .and_then(Value::as_object_mut)
                .ok_or_else(|| format!("{short} has no {field}"))?;
            target.extend(extensions.clone());
            self.unused.remove(&(rule_definition.clone(), field.clone()));
        }
        Ok(())
    }

    /// Reports rules without a definition or field, which are typing mistakes.
    pub fn all_used(&self) -> Result<(), String> {
        match self.unused.first() {
            None => Ok(()),
            Some((definition, field)) => Err(format!("rule without a field: {definition}.{field}")),
        }
    }
}
