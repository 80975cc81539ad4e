//! Rules for echo requests (ping): this node answers for Services with an endpoint. Connection tracking gives the answer
//! the address of the Service.

use api::object::ObjectKey;
use plan::{Frontend, FrontendKind, Plan, Target};

use super::context::Context;
use super::names::SharedChain;
use super::rule::{Rule, reject};
use super::service_rules::ServiceRules;

/// Writes the rules of a Service.
pub(super) fn write(plan: &Plan, service: &ObjectKey, context: &Context, rules: &mut ServiceRules) {
    let Some(node) = plan.ping_address(context.family) else {
        return;
    };
    let answer = format!("DNAT --to-destination {node}");
    let own = plan.pings_of(service);
    for frontend in own
        .filter(|ping| ping.family == context.family)
        .flat_map(|ping| &ping.frontends)
    {
        let writer = PingWriter {
            service,
            context,
            frontend,
        };
        if frontend.targets.iter().any(is_answered) {
            writer.write_answers(&answer, rules);
        }
        writer.write_refusals(rules);
    }
}

/// Writer of the rules for echo requests to a frontend.
struct PingWriter<'a> {
    service: &'a ObjectKey,
    context: &'a Context,
    frontend: &'a Frontend,
}

impl PingWriter<'_> {
    /// Writes the rules that lead to this node, by origin if the origins differ.
    fn write_answers(&self, answer: &str, rules: &mut ServiceRules) {
        let [outside, pod, node] = self.frontend.targets;
        if outside != pod || pod != node {
            for pods in &self.context.pods {
                self.write_answer(|| Rule::new().from_pods(pods), |rule| rule, pod, answer, rules);
            }
            self.write_answer(Rule::new, Rule::from_node, node, answer, rules);
        }
        if is_answered(&outside) {
            self.write_answer(Rule::new, |rule| rule, outside, answer, rules);
        }
    }

    /// Writes the rules for one origin: `first` and `then` add its matches before and after that of echo requests.
    fn write_answer(
        &self,
        first: impl Fn() -> Rule,
        then: impl Fn(Rule) -> Rule,
        target: Target,
        answer: &str,
        rules: &mut ServiceRules,
    ) {
        let rule = || then(self.at(first(), " echo requests"));
        if !is_answered(&target) {
            rules.push(SharedChain::Pings, rule().jump("RETURN"));
        } else if self.frontend.source_ranges.is_empty() {
            rules.push(SharedChain::Pings, rule().jump(answer));
        } else {
            for range in &self.frontend.source_ranges {
                rules.push(SharedChain::Pings, rule().also_source(*range).jump(answer));
            }
        }
    }

    /// Writes the rules that reject or drop unanswered echo requests.
    fn write_refusals(&self, rules: &mut ServiceRules) {
        let answers = self.frontend.targets.iter().any(is_answered);
        let mut refused = self.frontend.targets.iter();
        let verdict = match refused.find(|target| !is_answered(target)) {
            Some(Target::Drop) => Some("DROP"),
            Some(Target::Reject | Target::Balance { .. }) => Some(reject(None, self.context.family)),
            None => None,
        };
        let chain = match self.frontend.kind {
            FrontendKind::ClusterIp => SharedChain::FilterServices,
            _ => SharedChain::ExternalServices,
        };
        if self.frontend.source_ranges.is_empty() {
            let rule = verdict.map(|verdict| self.at(Rule::new(), " has no endpoints").jump(verdict));
            rule.into_iter().for_each(|rule| rules.push(chain, rule));
            return;
        }
        if let Some(verdict) = verdict.filter(|_| !answers) {
            for range in &self.frontend.source_ranges {
                let rule = self.at(Rule::new(), " has no endpoints");
                rules.push(chain, rule.also_source(*range).jump(verdict));
            }
        }
        let rule = self.at(Rule::new(), " is not open to this source");
        rules.push(chain, rule.jump("DROP"));
    }

    /// Appends the match of echo requests to the address.
    fn at(&self, rule: Rule, comment: &str) -> Rule {
        let family = self.context.family;
        let rule = match self.frontend.address {
            Some(address) => rule.to(address),
            None => rule,
        };
        rule.icmp(family)
            .comment(&format!("{}{comment}", self.service))
            .echo_request(family)
    }
}

fn is_answered(target: &Target) -> bool {
    matches!(target, Target::Balance { .. })
}
