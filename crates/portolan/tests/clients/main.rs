//! Clients of other projects with a complete server.

#[path = "../support/mod.rs"]
mod support;

mod kube_client;

use std::path::Path;
use std::process::Command;

use support::Api;

#[test]
fn python_client_gets_the_responses_that_it_expects() {
    let test = "python_client_gets_the_responses_that_it_expects";
    let import = Command::new("python3").args(["-c", "import kubernetes"]).output();
    if !import.is_ok_and(|output| output.status.success()) {
        println!("skipped: {test}: python3 has no module kubernetes");
        return;
    }
    let api = Api::start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/python_client.py");
    let output = Command::new("python3")
        .arg(script)
        .arg(api.kubeconfig())
        .output()
        .expect("python3");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    println!("{text}");
}
