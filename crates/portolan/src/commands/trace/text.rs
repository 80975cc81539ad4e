//! A trace as text: the verdict first, then each part of the way with the object and field that decided.

use std::fmt::Write as _;

use explain::trace::{
    Answer, AnswerKind, ChosenEndpoint, EndpointState, ExcludedEndpoint, NameResolution, NameServers, Path,
    Trace, Verdict,
};
use explain::{Finding, ObjectName};

use crate::output::printable;

/// Endpoints of a list that are shown; JSON has all.
const ENDPOINTS_SHOWN: usize = 20;
/// Nodes of a list that are shown; JSON has all.
const NODES_SHOWN: usize = 10;

/// Renders a trace. Texts of objects contain no control characters in the result.
pub(super) fn render(trace: &Trace) -> String {
    let mut text = Text::default();
    let node = match trace.client.node.as_str() {
        "" => String::new(),
        node if node == trace.client.name => String::new(),
        node => format!(" on node {node}"),
    };
    text.line(format_args!(
        "{} from {}{node}: {}",
        trace.destination,
        trace.client,
        verdict_with_reason(trace.verdict, &trace.reason)
    ));
    if let Some(name) = &trace.name {
        text.name(&trace.destination.host.to_string(), name);
    }
    for path in &trace.paths {
        text.path(path);
    }
    text.findings(&trace.findings);
    text.0
}

/// Returns the verdict with its reason.
fn verdict_with_reason(verdict: Verdict, reason: &str) -> String {
    match verdict {
        Verdict::Reaches => format!("reaches {reason}"),
        other => format!("{}: {reason}", other.as_str()),
    }
}

/// Returns the object and field in parentheses, or "".
fn source(object: Option<&ObjectName>, field: &str) -> String {
    match (object, field) {
        (Some(object), "") => format!(" ({object})"),
        (Some(object), field) => format!(" ({object} {field})"),
        (None, _) => String::new(),
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, arguments: std::fmt::Arguments<'_>) {
        let line = printable(&arguments.to_string());
        // Writing to a String cannot fail.
        writeln!(self.0, "{}", line.trim_end()).unwrap_or_default();
    }

    fn name(&mut self, host: &str, name: &NameResolution) {
        let resolver = &name.resolver;
        let servers = match resolver.name_servers {
            NameServers::Cluster => "cluster DNS",
            NameServers::Outside => "servers outside of the cluster",
        };
        self.line(format_args!(""));
        self.line(format_args!("Name {host}, resolved by {servers}"));
        let from = source(resolver.object.as_ref(), &resolver.field);
        self.line(format_args!("  {}{from}", resolver.reason));
        self.line(format_args!(
            "  search list: {}; ndots {}",
            match resolver.searches.as_slice() {
                [] => "empty".to_owned(),
                searches => searches.join(" "),
            },
            resolver.ndots
        ));
        let width = name
            .tried
            .iter()
            .map(|answer| answer.name.len())
            .max()
            .unwrap_or(0);
        for answer in &name.tried {
            self.answer(answer, width);
        }
    }

    fn answer(&mut self, answer: &Answer, width: usize) {
        let mut parts: Vec<String> = answer
            .aliases
            .iter()
            .map(|name| format!("alias of {name}"))
            .collect();
        match answer.kind {
            AnswerKind::Addresses => {
                let addresses: Vec<String> = answer.addresses.iter().map(ToString::to_string).collect();
                parts.push(list_first(&addresses, ENDPOINTS_SHOWN));
            }
            AnswerKind::Alias => parts.push("outside of the cluster".to_owned()),
            AnswerKind::NoAddress => parts.push("no address".to_owned()),
            AnswerKind::NoName => parts.push("no such name".to_owned()),
            AnswerKind::Outside => parts.push("answered outside of the cluster".to_owned()),
        }
        let from = source(answer.object.as_ref(), &answer.field);
        self.line(format_args!(
            "  {:width$}  {}{from}",
            answer.name,
            parts.join(", ")
        ));
    }

    fn path(&mut self, path: &Path) {
        let addresses: Vec<String> = path.addresses.iter().map(ToString::to_string).collect();
        let to = list_first(&addresses, NODES_SHOWN);
        let from = path
            .source
            .map_or_else(String::new, |source| format!(" from {source}"));
        let nodes = match path.nodes.len() {
            0 => String::new(),
            1 => format!(", decided by node {}", path.nodes.join("")),
            count => format!(
                ", decided alike by {count} nodes: {}",
                list_first(&path.nodes, NODES_SHOWN)
            ),
        };
        self.line(format_args!(""));
        self.line(format_args!("To {to}{from}{nodes}"));
        for step in &path.steps {
            let from = source(step.object.as_ref(), &step.field);
            self.line(format_args!("  {:<16}{}{from}", step.step.title(), step.result));
        }
        if !path.endpoints.is_empty() {
            self.line(format_args!("  endpoints"));
        }
        for endpoint in path.endpoints.iter().take(ENDPOINTS_SHOWN) {
            self.chosen(endpoint);
        }
        self.write_omitted_count(path.endpoints.len());
        if !path.excluded.is_empty() {
            self.line(format_args!("  not used"));
        }
        for endpoint in path.excluded.iter().take(ENDPOINTS_SHOWN) {
            self.excluded(endpoint);
        }
        self.write_omitted_count(path.excluded.len());
        self.line(format_args!(
            "  {}",
            verdict_with_reason(path.verdict, &path.reason)
        ));
    }

    fn write_omitted_count(&mut self, count: usize) {
        if let Some(more) = count.checked_sub(ENDPOINTS_SHOWN).filter(|more| *more > 0) {
            self.line(format_args!("    … and {more} more"));
        }
    }

    fn chosen(&mut self, endpoint: &ChosenEndpoint) {
        let at = std::net::SocketAddr::new(endpoint.address, endpoint.port);
        let mut parts = place_of_endpoint(&endpoint.state);
        parts.push(condition(&endpoint.state).to_owned());
        match endpoint.declared_by.as_deref() {
            Some("") => parts.push("port not declared by a container".to_owned()),
            Some(container) => parts.push(format!("port declared by container {container}")),
            None => {}
        }
        if endpoint.masquerade {
            parts.push("masqueraded".to_owned());
        }
        let percent = endpoint.chance * 100.0;
        self.line(format_args!("    {percent:>5.1} %  {at}  {}", parts.join(", ")));
    }

    fn excluded(&mut self, endpoint: &ExcludedEndpoint) {
        let at = match (endpoint.address.parse(), endpoint.port) {
            (Ok(address), Some(port)) => std::net::SocketAddr::new(address, port).to_string(),
            _ => endpoint.address.clone(),
        };
        let mut parts = place_of_endpoint(&endpoint.state);
        parts.push(format!(
            "{}{}",
            endpoint.reason,
            source(Some(&endpoint.object), &endpoint.field)
        ));
        self.line(format_args!("    {at}  {}", parts.join(", ")));
    }

    fn findings(&mut self, findings: &[Finding]) {
        if findings.is_empty() {
            return;
        }
        self.line(format_args!(""));
        self.line(format_args!("Findings"));
        for finding in findings {
            let (code, severity) = (finding.code, finding.severity.as_str());
            self.line(format_args!("  {code} {severity}  {}", finding.object));
            self.line(format_args!("    {}", finding.message));
            self.line(format_args!("    Remedy: {}", finding.remedy));
        }
    }
}

/// Returns the Pod, node and zone of an endpoint.
fn place_of_endpoint(state: &EndpointState) -> Vec<String> {
    let named = [("Pod", &state.pod), ("node", &state.node), ("zone", &state.zone)];
    let known = named.into_iter().filter(|(_, name)| !name.is_empty());
    known.map(|(title, name)| format!("{title} {name}")).collect()
}

fn condition(state: &EndpointState) -> &'static str {
    match (state.ready, state.terminating) {
        (true, _) => "ready",
        (false, true) => "terminating",
        (false, false) => "not ready",
    }
}

fn list_first(texts: &[String], shown: usize) -> String {
    let list = texts.iter().take(shown).map(String::as_str).collect::<Vec<_>>();
    let list = list.join(", ");
    match texts.len().checked_sub(shown).filter(|more| *more > 0) {
        Some(more) => format!("{list} and {more} more"),
        None => list,
    }
}

#[cfg(test)]
mod tests;
