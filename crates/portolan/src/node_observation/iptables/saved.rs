//! Output of `iptables-save`.

use std::collections::{BTreeMap, BTreeSet};

use explain::observation::ForwardRule;

/// Maximum number of rules of the chain FORWARD.
const FORWARD_RULES_MAX: usize = 1_000;
/// Maximum number of names of chains that are kept: those of a node with a firewall. Chains of Services are not kept.
const CHAINS_MAX: usize = 5_000;
/// Prefix of the names of chains of one Service or endpoint.
const PER_SERVICE: [&str; 5] = ["KUBE-SVC-", "KUBE-SEP-", "KUBE-EXT-", "KUBE-SVL-", "KUBE-FW-"];
/// States of connections that a rule for new connections contains.
const NEW_STATE: &str = "NEW";

/// Tables of iptables in one variant and family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SavedTables {
    /// Number of rules in all tables.
    pub rules: u64,
    /// Policies of the built-in chains of the table `filter`, such as `FORWARD` and `DROP`.
    pub policies: BTreeMap<String, String>,
    /// Names of the chains of the table `filter`.
    pub filter_chains: BTreeSet<String>,
    /// True if the table `nat` has the chain with the Services.
    pub has_services: bool,
    /// Rules of the chain FORWARD of the table `filter`.
    pub forward: Vec<ForwardRule>,
}

/// Parses the output of `iptables-save`. Unknown lines are skipped.
pub(super) fn parse(text: &str, services_chain: &str) -> SavedTables {
    let mut saved = SavedTables::default();
    let mut rules_of_chains: BTreeMap<&str, u64> = BTreeMap::new();
    let mut table = "";
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('*') {
            table = name;
        } else if let Some(chain) = line.strip_prefix(':') {
            let mut fields = chain.split_ascii_whitespace();
            let (name, policy) = (fields.next().unwrap_or_default(), fields.next().unwrap_or("-"));
            saved.has_services |= table == "nat" && name == services_chain;
            if table == "filter" {
                saved.add_chain(name, policy);
            }
        } else if let Some(rule) = line.strip_prefix("-A ") {
            saved.rules += 1;
            if table != "filter" {
                continue;
            }
            let (chain, rest) = rule.split_once(' ').unwrap_or((rule, ""));
            *rules_of_chains.entry(chain).or_default() += 1;
            if chain == "FORWARD" && saved.forward.len() < FORWARD_RULES_MAX {
                saved.forward.push(forward_rule(rest));
            }
        }
    }
    for rule in &mut saved.forward {
        if saved.filter_chains.contains(&rule.target) {
            rule.target_rules = Some(rules_of_chains.get(rule.target.as_str()).copied().unwrap_or(0));
        }
    }
    saved
}

impl SavedTables {
    fn add_chain(&mut self, name: &str, policy: &str) {
        if policy != "-" {
            self.policies.insert(name.to_owned(), policy.to_owned());
        }
        let is_kept = !PER_SERVICE.iter().any(|beginning| name.starts_with(beginning));
        if is_kept && self.filter_chains.len() < CHAINS_MAX {
            self.filter_chains.insert(name.to_owned());
        }
    }
}

/// Parses the matches and the target of a rule.
fn forward_rule(text: &str) -> ForwardRule {
    let mut rule = ForwardRule::default();
    let words = words(text);
    let mut words = words.iter().map(String::as_str);
    let mut is_negated = false;
    while let Some(word) = words.next() {
        match word {
            "!" => {
                is_negated = true;
                continue;
            }
            "-i" => rule.input_link = words.next().map(|link| format_link(link, is_negated)),
            "-o" => rule.output_link = words.next().map(|link| format_link(link, is_negated)),
            "-s" | "-d" => {
                let range = words.next().and_then(|range| range.parse().ok());
                rule.has_other_matches |= is_negated || range.is_none();
                if word == "-s" {
                    rule.source = range.filter(|_| !is_negated);
                } else {
                    rule.destination = range.filter(|_| !is_negated);
                }
            }
            // Modules without their options match everything.
            "-m" => {
                let module = words.next().unwrap_or_default();
                rule.has_other_matches |= !matches!(module, "comment" | "conntrack" | "state");
            }
            "--comment" => {
                words.next();
            }
            "--ctstate" | "--state" => {
                let mut states = words.next().unwrap_or_default().split(',');
                let has_new = states.any(|state| state == NEW_STATE);
                rule.has_other_matches |= has_new == is_negated;
            }
            // Options of the target follow.
            "-j" | "-g" => {
                words.next().unwrap_or_default().clone_into(&mut rule.target);
                break;
            }
            _ => rule.has_other_matches = true,
        }
        is_negated = false;
    }
    rule
}

fn format_link(link: &str, is_negated: bool) -> String {
    if is_negated {
        format!("!{link}")
    } else {
        link.to_owned()
    }
}

/// Splits a line at its blanks. Double quotes enclose a word, and a backslash escapes a character within them.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut characters = line.chars().peekable();
    while let Some(first) = characters.next() {
        if first.is_whitespace() {
            continue;
        }
        let mut word = String::new();
        if first == '"' {
            while let Some(character) = characters.next().filter(|character| *character != '"') {
                if character == '\\' {
                    word.extend(characters.next());
                } else {
                    word.push(character);
                }
            }
        } else {
            word.push(first);
            while let Some(character) = characters.next_if(|character| !character.is_whitespace()) {
                word.push(character);
            }
        }
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests;
