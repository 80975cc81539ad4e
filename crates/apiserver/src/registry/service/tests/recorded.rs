//! Replays recorded creations, updates and deletions of Services against the validation rules and the allocators.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::server::{Response, Server};

const RANGES: [&str; 2] = ["10.96.0.0/16", "fd00:10:96::/112"];
const SERVICES: &str = "/api/v1/namespaces/{ns}/services";

#[test]
fn replays_recorded_creations() {
    assert!(replay("service-create") >= 215);
}

#[test]
fn replays_recorded_updates() {
    assert!(replay("service-update") >= 65);
}

/// Replays those cases of a file that concern only Services; returns their number.
fn replay(file: &str) -> usize {
    let path: PathBuf = [
        env!("CARGO_MANIFEST_DIR"),
        "../../conformance/api",
        &format!("{file}.json"),
    ]
    .iter()
    .collect();
    let cases: Value = serde_json::from_slice(&fs::read(path).expect("the recorded cases")).expect("JSON");
    let server = Server::new(&RANGES);
    // In the recorded cluster, the `kubernetes` Service holds this address.
    server
        .allocators
        .mark_address_taken("10.96.0.1".parse().expect("an IP address"));
    let (mut compared, mut faults) = (0, Vec::new());
    for (number, case) in cases["cases"].as_array().expect("a JSON list").iter().enumerate() {
        let steps = case["steps"].as_array().expect("a JSON list");
        if !steps.iter().all(is_about_services) {
            continue;
        }
        let namespace = format!("n{number}");
        if let Err(fault) = replay_case(&server, &namespace, steps) {
            faults.push(format!("{}: {fault}", case["id"]));
        }
        for name in server.keys(&format!("/services/{namespace}/")) {
            server.delete(&namespace, &name).expect("a deleted Service");
        }
        compared += 1;
    }
    assert!(
        faults.is_empty(),
        "{} of {compared} cases differ:\n{}",
        faults.len(),
        faults.join("\n")
    );
    assert_eq!(
        server.keys("/networking.k8s.io/ipaddresses/"),
        [""; 0],
        "addresses leak"
    );
    assert_eq!(server.keys("/nodeports/"), [""; 0], "ports leak");
    compared
}

/// Returns true for steps that the allocators can replay. Decoding, versions, preconditions and other patches
/// have tests of their own.
fn is_about_services(step: &Value) -> bool {
    let (method, path) = (
        step["do"].as_str().unwrap_or(""),
        step["path"].as_str().unwrap_or(""),
    );
    let content_type = step["headers"]["Content-Type"].as_str().unwrap_or("");
    let is_plain = !step.to_string().contains("${") && path.starts_with(SERVICES);
    let is_query_known = !path.contains('?') || path.ends_with("?dryRun=All");
    let has_object = |field: &str| step[field].is_object();
    let has_known_body = match method {
        "POST" => has_object("body") && !step["body"].to_string().contains("nonsense\":"),
        "PUT" => has_object("merge") || has_object("body"),
        "PATCH" => content_type == "application/merge-patch+json" && has_object("body"),
        "DELETE" => step["body"].is_null(),
        "GET" => true,
        _ => false,
    };
    let is_known_response = matches!(
        step["expect"]["status"].as_u64(),
        Some(200 | 201 | 404 | 422 | 500)
    ) && method != "PUT"
        || matches!(step["expect"]["status"].as_u64(), Some(200 | 422));
    is_plain && is_query_known && has_known_body && is_known_response
}

fn replay_case(server: &Server, namespace: &str, steps: &[Value]) -> Result<(), String> {
    let mut responses: Vec<Value> = Vec::new();
    let mut symbols = HashMap::new();
    for (index, step) in steps.iter().enumerate() {
        let Some(response) = perform(server, namespace, step, &responses) else {
            responses.push(Value::Null);
            continue;
        };
        let expected = &step["expect"];
        let at = |fault: String| format!("step {index}: {fault}");
        match response {
            Ok((object, warnings)) => {
                if expected["status"].as_u64().is_none_or(|status| status >= 300) {
                    return Err(at(format!("accepted, expected {expected}")));
                }
                let expected_warnings = expected["warnings"].as_u64().unwrap_or(0) as usize;
                if step["do"] != "GET" && step["do"] != "DELETE" && warnings != expected_warnings {
                    return Err(at(format!("{warnings} warnings, expected {expected_warnings}")));
                }
                for part in ["spec", "status"] {
                    compare(&object[part], &expected["body"][part], &mut symbols)
                        .map_err(|fault| at(format!("{part}{fault}")))?;
                }
                responses.push(object);
            }
            Err((status, causes)) => {
                let mut expected_causes: Vec<(String, String)> =
                    serde_json::from_value(expected["Status"]["causes"].clone()).unwrap_or_default();
                expected_causes.sort();
                if u64::from(status) != expected["status"] || causes != expected_causes {
                    return Err(at(format!("{status} {causes:?}, expected {expected}")));
                }
                responses.push(Value::Null);
            }
        }
    }
    Ok(())
}

/// Performs a step; `None` for a creation by PUT, which needs the verbs.
fn perform(server: &Server, namespace: &str, step: &Value, responses: &[Value]) -> Option<Response> {
    let path = step["path"].as_str().unwrap_or("");
    let is_dry_run = path.ends_with("?dryRun=All");
    let path = path.split('?').next().unwrap_or("");
    let mut rest = path
        .strip_prefix(SERVICES)
        .unwrap_or("")
        .trim_start_matches('/')
        .split('/');
    let (name, is_status) = (rest.next().unwrap_or(""), rest.next() == Some("status"));
    let mut body = match step["base"]
        .as_u64()
        .and_then(|base| responses.get(base as usize))
    {
        Some(base) => base.clone(),
        None if step["do"] == "PATCH" => server.get(namespace, name).unwrap_or_default(),
        None => Value::Null,
    };
    let change = if step["merge"].is_object() {
        &step["merge"]
    } else {
        &step["body"]
    };
    merge(&mut body, change);
    Some(match step["do"].as_str().unwrap_or("") {
        "POST" => server.create(namespace, body, is_dry_run),
        "PUT" if server.get(namespace, name).is_none() => return None,
        "PUT" | "PATCH" if is_status => server.update_status(namespace, name, body),
        "PUT" | "PATCH" => server.update(namespace, name, body),
        "DELETE" => server.delete(namespace, name),
        _ => server
            .get(namespace, name)
            .map(|object| (object, 0))
            .ok_or((404, Vec::new())),
    })
}

/// Applies a JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Some(changes) = patch.as_object() else {
        if !patch.is_null() {
            *target = patch.clone();
        }
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (field, change) in changes {
        if change.is_null() {
            api::tree::clear(target, field);
        } else if change.is_object() {
            merge(&mut target[field], change);
        } else {
            target[field] = change.clone();
        }
    }
}

/// Compares values. A symbol `<name#n>` in `expected` matches any value. Within a case, equal symbols match equal
/// values, and different symbols match different values.
fn compare(actual: &Value, expected: &Value, symbols: &mut HashMap<String, Value>) -> Result<(), String> {
    match (actual, expected) {
        (_, Value::String(symbol)) if symbol.starts_with('<') => {
            let known = symbols.entry(symbol.clone()).or_insert_with(|| actual.clone());
            if known != actual {
                return Err(format!(": {actual}, expected {symbol} = {known}"));
            }
            let holders = symbols.values().filter(|value| *value == actual).count();
            if holders == 1 {
                Ok(())
            } else {
                Err(format!(": {actual} matches several symbols"))
            }
        }
        (Value::Object(fields), Value::Object(expected_fields)) => {
            for field in fields.keys().chain(expected_fields.keys()) {
                compare(&actual[field], &expected[field], symbols)
                    .map_err(|fault| format!(".{field}{fault}"))?;
            }
            Ok(())
        }
        (Value::Array(items), Value::Array(expected_items)) if items.len() == expected_items.len() => {
            for (index, (item, expected)) in items.iter().zip(expected_items).enumerate() {
                compare(item, expected, symbols).map_err(|fault| format!("[{index}]{fault}"))?;
            }
            Ok(())
        }
        _ if actual == expected => Ok(()),
        _ => Err(format!(": {actual}, expected {expected}")),
    }
}
