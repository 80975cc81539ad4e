use super::*;
use crate::kinds::kind;

/// Fields without a number: `apiVersion` and `kind` of objects are in the envelope, and the others are newer than the
/// source of the numbers.
const WITHOUT_NUMBER: &[&str] = &[
    "ListMeta.shardInfo",
    "PodSpec.schedulingGroup",
    "PodStatus.nodeAllocatableResourceClaimStatuses",
    "ResourceHealth.message",
    "VolumeMountStatus.volumeStatus",
];

/// Definitions that are newer than the source of the numbers, and occur only in the fields above.
const WITHOUT_MESSAGE: &[&str] = &[
    "ImageVolumeStatus",
    "NodeAllocatableResourceClaimStatus",
    "PodSchedulingGroup",
    "ShardInfo",
    "VolumeStatus",
];

fn positions(message: &[NumberedField], into: &mut Vec<usize>) {
    for numbered in message {
        match &numbered.target {
            Target::Field { position, .. } => into.push(*position),
            Target::Inline(inner) => positions(inner, into),
        }
    }
}

fn sorted(message: &[NumberedField]) -> bool {
    message.is_sorted_by(|a, b| a.number < b.number)
        && message.iter().all(|field| match &field.target {
            Target::Inline(inner) => sorted(inner),
            Target::Field { .. } => true,
        })
}

#[test]
fn all_lines_and_columns_are_parsed_once() {
    let mut parsed = Vec::new();
    numbers()
        .messages
        .iter()
        .for_each(|message| positions(message, &mut parsed));
    let columns = NUMBERS_TEXT.split_whitespace().filter(|word| word.contains('='));
    assert_eq!(parsed.len(), columns.count());
    assert!(numbers().messages.iter().all(|message| sorted(message)));
}

#[test]
fn all_fields_have_a_number_or_are_listed() {
    let mut missing = Vec::new();
    for line in NUMBERS_TEXT.lines() {
        let name = line.split(' ').next().unwrap_or_default();
        assert!(schema().find(name).is_some(), "{name}");
    }
    for name in crate::machinery::schema::DEFINITIONS_TEXT
        .lines()
        .filter_map(|line| line.split('"').nth(1))
        // Portolan's own kinds, and those that upstream defines as custom resources, have no protobuf encoding.
        .filter(|name| !name.starts_with("dev.portolan.") && !name.starts_with("io.x-k8s."))
    {
        let Some(Shape::Object(id)) = schema().shape(name) else {
            continue;
        };
        let definition = schema().get(id);
        let short = definition.short_name();
        let mut numbered = Vec::new();
        positions(numbers().of(id), &mut numbered);
        let is_object = definition.field("apiVersion").is_some() && definition.field("metadata").is_some();
        for (position, field) in definition.fields().iter().enumerate() {
            let in_envelope =
                matches!(field.name, "apiVersion" | "kind") && (is_object || short == "DeleteOptions");
            if !numbered.contains(&position) && !in_envelope && !WITHOUT_MESSAGE.contains(&short) {
                missing.push(format!("{short}.{}", field.name));
            }
        }
    }
    missing.sort();
    assert_eq!(missing, WITHOUT_NUMBER);
}

#[test]
fn definitions_are_not_recursive() {
    fn inner(shape: &Shape) -> Option<DefinitionId> {
        match shape {
            Shape::Object(id) => Some(*id),
            Shape::List(shape) | Shape::Map(shape) => inner(shape),
            _ => None,
        }
    }
    fn depth(id: DefinitionId, within: &mut Vec<DefinitionId>) -> usize {
        let name = schema().get(id).name;
        assert!(!within.contains(&id), "{name} contains itself");
        within.push(id);
        let fields = schema().get(id).fields().iter();
        let deepest = fields
            .filter_map(|field| inner(&field.shape))
            .map(|id| depth(id, within))
            .max();
        within.pop();
        1 + deepest.unwrap_or(0)
    }
    for kind in kind::all() {
        let Some(Shape::Object(id)) = schema().shape(kind.definition) else {
            panic!("{}", kind.definition);
        };
        assert!(depth(id, &mut Vec::new()) < 20, "{}", kind.kind);
    }
}
