//! JSON, merge and strategic merge patches of objects of every kind. The input consists of the kind, a newline, the
//! object, a zero byte, the patch type and the patch.
#![no_main]

use api::decode::{Format, conform};
use api::patch::{self, PatchFormat};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const ROUNDS_MAX: usize = 8;
/// Limit of a stored object.
const OBJECT_BYTES_MAX: usize = 3 << 19;

fuzz_target!(|input: &[u8]| {
    let Some((kind, object, rest)) = portolan_fuzz::kind_and_two_parts(input) else { return };
    let Some((form, body)) = rest.split_first() else { return };
    let Some(object) = portolan_fuzz::decode_and_repeat(object, Format::Json, kind) else { return };
    let format = match form % 3 {
        0 => PatchFormat::Json,
        1 => PatchFormat::Merge,
        _ => PatchFormat::StrategicMerge,
    };
    let mut object = object;
    // Repeated, because a patch may make an object a little deeper or larger each time.
    for _ in 0..ROUNDS_MAX {
        let Ok(patched) = patch::apply(&object, body, format, kind) else { break };
        let patched = patched.object;
        let text = patched.to_string();
        serde_json::from_str::<Value>(&text).expect("a patched object can be read again");
        // The result of a patch is decoded with the schema again, as in the server.
        conform(patched.clone(), kind).ok();
        if text.len() > OBJECT_BYTES_MAX {
            break;
        }
        object = patched;
    }
});
