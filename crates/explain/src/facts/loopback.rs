//! Settings of containers with which an application listens on a loopback address only.

use serde_json::Value;

use crate::views::{Pod, list, text};

/// Loopback addresses as settings contain them.
const LOOPBACK_HOSTS: [&str; 4] = ["127.0.0.1", "localhost", "::1", "[::1]"];
/// Parts of the names of settings with the address of a listener.
const LISTENER_PARTS: [&str; 2] = ["listen", "bind"];
/// Other names of settings with address and port of a listener: short flags, and a command of Django.
const LISTENER_NAMES: [&str; 5] = ["b", "runserver", "addr", "http-addr", "server-addr"];
/// Names of settings with the host of the only listener.
const HOST_NAMES: [&str; 21] = [
    "host",
    "bind",
    "bind-address",
    "bind-addr",
    "bind-host",
    "bind-ip",
    "listen",
    "listen-address",
    "listen-addr",
    "listen-host",
    "server-host",
    "server-address",
    "http-host",
    "address",
    "aspnetcore-urls",
    "flask-run-host",
    "gf-server-http-addr",
    "gradio-server-name",
    "ollama-host",
    "streamlit-server-address",
    "uvicorn-host",
];
/// Names of settings that clients have, too: in a script of several commands, one of them can wait for the server.
const CLIENT_NAMES: [&str; 3] = ["host", "addr", "address"];
/// Ends of commands in a script.
const COMMAND_ENDS: [char; 4] = [';', '&', '|', '\n'];
/// Maximum number of bytes of an argument that is read: longer ones are scripts.
const TEXT_BYTES_MAX: usize = 4_096;

/// Setting with the address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Path of the setting in the Pod.
    pub field: String,
    /// Name and value.
    pub text: String,
}

/// An argument or variable of a container.
struct Entry<'w> {
    /// Name in lower case, with hyphens and without leading ones; "" for an argument behind no other one.
    name: String,
    value: &'w str,
    /// True for a word of a script of several commands.
    is_of_script: bool,
    setting: Setting,
}

/// Returns the setting with which the application of a Pod listens on a loopback address at a port. Another container,
/// or another setting, can make it listen elsewhere, too; then the result is `None`.
pub(crate) fn loopback_setting(pod: Pod<'_>, number: u16) -> Option<Setting> {
    let mut containers = pod.containers();
    let container = containers.next()?;
    if containers.next().is_some() || pod.is_on_host_network() {
        return None;
    }
    let declared: Vec<u16> = pod.ports().iter().map(|port| port.number).collect();
    let is_only = declared == [number];
    let mut entries = variables(container);
    entries.extend(arguments(container));
    let port_settings = entries.into_iter().filter_map(|entry| {
        let host = host_of(&entry, number, is_only)?;
        Some((LOOPBACK_HOSTS.contains(&host), entry.setting))
    });
    let port_settings: Vec<(bool, Setting)> = port_settings.collect();
    let is_loopback_only = port_settings.iter().all(|(is_loopback, _)| *is_loopback);
    let first = port_settings.into_iter().next().filter(|_| is_loopback_only);
    first.map(|(_, setting)| setting)
}

fn variables(container: &Value) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    for (index, variable) in list(container, "env").iter().enumerate() {
        let (name, value) = (text(variable, "name"), text(variable, "value"));
        entries.push(Entry {
            name: normalized_name(name),
            value,
            is_of_script: false,
            setting: Setting {
                field: format!("spec.containers[0].env[{index}].value"),
                text: format!("{name}={value}"),
            },
        });
    }
    entries
}

/// Returns the words of command and arguments. The name of a word is its flag, or the word before it.
fn arguments(container: &Value) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    let mut previous = "";
    for list_name in ["command", "args"] {
        for (index, argument) in list(container, list_name).iter().enumerate() {
            let argument = argument.as_str().filter(|text| text.len() <= TEXT_BYTES_MAX);
            let argument = argument.unwrap_or_default();
            let is_of_script = argument.trim().contains(COMMAND_ENDS);
            for word in argument.split_whitespace() {
                let (name, value) = match word.split_once('=') {
                    Some((flag, value)) if flag.starts_with('-') => (flag, value),
                    _ => (previous, word),
                };
                entries.push(Entry {
                    name: normalized_name(name),
                    value,
                    is_of_script,
                    setting: Setting {
                        field: format!("spec.containers[0].{list_name}[{index}]"),
                        text: format!("{name} {value}").trim().to_owned(),
                    },
                });
                previous = word;
            }
        }
    }
    entries
}

fn normalized_name(name: &str) -> String {
    name.trim_start_matches('-')
        .to_ascii_lowercase()
        .replace(['_', '.'], "-")
}

/// Returns the host of a listener at a port, as a setting has it; `None` for other settings. `is_only` is true if the
/// container declares the port and no other one.
fn host_of<'w>(entry: &Entry<'w>, number: u16, is_only: bool) -> Option<&'w str> {
    let name = entry.name.as_str();
    if entry.is_of_script && CLIENT_NAMES.contains(&name) {
        return None;
    }
    match host_and_port(entry.value) {
        (host, Some(port)) => {
            let is_listener = LISTENER_PARTS.iter().any(|part| name.contains(part))
                || LISTENER_NAMES.contains(&name)
                || HOST_NAMES.contains(&name);
            (port == number && is_listener).then_some(host)
        }
        (host, None) => (is_only && HOST_NAMES.contains(&name)).then_some(host),
    }
}

/// Splits `HOST:PORT`, with or without a scheme and a path.
fn host_and_port(value: &str) -> (&str, Option<u16>) {
    let address = value.split_once("://").map_or(value, |(_, rest)| rest);
    let address = address.split('/').next().unwrap_or_default();
    match address.rsplit_once(':') {
        Some((host, port)) if host.ends_with(']') || !host.contains(':') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (address, None),
        },
        _ => (address, None),
    }
}

#[cfg(test)]
mod tests;
