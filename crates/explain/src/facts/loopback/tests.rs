use serde_json::json;

use super::*;
use crate::kind::Kind;
use crate::object::Object;

/// Setting of a Pod with these fields of its only container, which declares port 8080.
fn setting(fields: &Value) -> Option<String> {
    let mut container = json!({"name": "web", "ports": [{"containerPort": 8080}]});
    json_patch::merge(&mut container, fields);
    let pod = json!({"metadata": {"name": "web-1"}, "spec": {"containers": [container]}});
    let pod = Object::read(Kind::Pod, pod).expect("a Pod");
    loopback_setting(Pod(&pod), 8080).map(|setting| format!("{}: {}", setting.field, setting.text))
}

#[test]
fn addresses_of_listeners_are_read() {
    for (fields, expected) in [
        (
            json!({"args": ["--listen-address=127.0.0.1:8080"]}),
            "spec.containers[0].args[0]: --listen-address 127.0.0.1:8080",
        ),
        (
            json!({"command": ["uvicorn", "app:app"], "args": ["--host", "localhost"]}),
            "spec.containers[0].args[1]: --host localhost",
        ),
        (
            json!({"command": ["sh", "-c", "gunicorn -b 127.0.0.1:8080 app"]}),
            "spec.containers[0].command[2]: -b 127.0.0.1:8080",
        ),
        (
            json!({"args": ["manage.py", "runserver", "127.0.0.1:8080"]}),
            "spec.containers[0].args[2]: runserver 127.0.0.1:8080",
        ),
        (
            json!({"args": ["mongod", "--bind_ip", "::1"]}),
            "spec.containers[0].args[2]: --bind_ip ::1",
        ),
        (
            json!({"env": [{"name": "LOG"}, {"name": "HOST", "value": "127.0.0.1"}]}),
            "spec.containers[0].env[1].value: HOST=127.0.0.1",
        ),
        (
            json!({"env": [{"name": "BIND", "value": "tcp://[::1]:8080/"}]}),
            "spec.containers[0].env[0].value: BIND=tcp://[::1]:8080/",
        ),
    ] {
        assert_eq!(setting(&fields).as_deref(), Some(expected), "{fields}");
    }
}

#[test]
fn settings_of_other_addresses_and_ports_are_none() {
    for fields in [
        json!({"args": ["--listen-address=:8080"]}),
        json!({"args": ["--listen-address=0.0.0.0:8080"]}),
        json!({"args": ["--listen-address=127.0.0.1:9090"]}),
        json!({"args": ["--bind=127.0.0.1:8080", "--bind=10.0.0.7:8080"]}),
        json!({"args": ["--upstream=http://127.0.0.1:8080"]}),
        json!({"args": ["--bind_ip", "localhost,10.244.1.7"]}),
        json!({"env": [{"name": "DB_HOST", "value": "localhost"}]}),
        json!({"env": [{"name": "HOST", "value": "0.0.0.0"}]}),
        json!({"env": [{"name": "HOST", "value": "127.0.0.1"}], "ports": [{"containerPort": 8080}, {"containerPort": 9090}]}),
        json!({"command": ["sh", "-c", "server & curl -s 127.0.0.1:8080"]}),
        json!({"command": ["sh", "-c", "server & until pg_isready --host localhost; do sleep 1; done"]}),
        json!({"command": ["sh", "-c", "server & until grpc_health_probe -addr=localhost:8080; do sleep 1; done"]}),
    ] {
        assert_eq!(setting(&fields), None, "{fields}");
    }
}
