//! Verdict codes: the values of frontends, and the keys of the verdict map.
//!
//! A code stands for a verdict and its masquerade bits. Frontends with the same verdict share the code and its chains,
//! so the number of chains does not grow with that of the Services. Codes that an earlier process assigned are adopted.
//! Unused codes stay applied until enough of them justify a sweep, because their reuse is free.

use std::collections::{HashMap, HashSet};

use netlink::nftables::{Chain, Rule, Verdict};
use plan::PodDetection;

use super::bytes::MapBytes;
use super::map_element::{MapElement, MapId, MapValue};
use super::rule_builder::MASQUERADE_BITS;
use super::verdict_chain::VerdictChain;

/// Maximum number of unused codes that stay applied before a sweep. Numbers of endpoints fluctuate, and reuse of a code
/// is free; a thousand codes take one megabyte of kernel memory.
const UNUSED_MAX: usize = 256;

/// Verdict chains with their codes.
#[derive(Debug, Default)]
pub(super) struct VerdictCodes {
    /// Upper bits of the code, by verdict.
    numbers: HashMap<Verdict<String>, u32>,
    /// Verdict chain of each code. Chains that differ only in data of the Service share a code.
    verdict_chains: HashMap<u32, VerdictChain>,
    /// Codes that the kernel holds.
    applied: HashSet<u32>,
    /// Chains that the kernel holds.
    chains: HashSet<String>,
    next_number: u32,
    /// Detection of Pods in the chains.
    pods: PodDetection,
    /// Number of used codes after the last sweep.
    used_last: usize,
}

impl VerdictCodes {
    /// Creates an empty list of codes, for chains with this Pod detection.
    pub(super) fn new(pods: PodDetection) -> Self {
        Self {
            pods,
            ..Self::default()
        }
    }

    /// Sets the Pod detection of future chains. Returns true if applied chains are wrong now. Chains do not depend on
    /// the CIDRs themselves, which are elements of a set.
    pub(super) fn set_pods(&mut self, pods: &PodDetection) -> bool {
        let is_same = match (&self.pods, pods) {
            (PodDetection::Ranges(_), PodDetection::Ranges(_)) => true,
            (before, now) => before == now,
        };
        self.pods.clone_from(pods);
        !is_same && !self.applied.is_empty()
    }

    /// Returns the code of a verdict chain; assigns a new one if needed.
    pub(super) fn code(&mut self, verdict_chain: VerdictChain) -> u32 {
        let next = self.next_number;
        let number = *self.numbers.entry(verdict_chain.verdict()).or_insert(next);
        if number == next {
            self.next_number += 1;
        }
        let code = number << MASQUERADE_BITS.count_ones() | verdict_chain.masquerade_bits;
        self.verdict_chains.entry(code).or_insert(verdict_chain);
        code
    }

    /// Adopts a code that an earlier process assigned.
    pub(super) fn adopt(&mut self, code: u32, verdict: Verdict<String>) {
        let number = code >> MASQUERADE_BITS.count_ones();
        self.next_number = self.next_number.max(number + 1);
        self.numbers.entry(verdict).or_insert(number);
    }

    /// Returns the element of a code in the verdict map.
    pub(super) fn element(&self, code: u32) -> Option<MapElement> {
        let verdict_chain = self.verdict_chains.get(&code)?;
        let map_id = MapId::Verdicts;
        Some(MapElement {
            map_value: MapValue::Verdict(verdict_chain.verdict()),
            ..MapElement::key(map_id, MapBytes::new().mark(code))
        })
    }

    /// Returns the codes that the kernel lacks, without duplicates.
    pub(super) fn missing(&self, codes: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut missing: Vec<u32> = codes.filter(|code| !self.applied.contains(code)).collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// Returns the chains that codes need and the kernel lacks; each jumps only to earlier ones.
    pub(super) fn missing_chains(&self, codes: &[u32]) -> Vec<(Chain, Vec<Rule>)> {
        let mut chains = self.chains_of(codes.iter());
        chains.retain(|(chain, _)| !self.chains.contains(&chain.name));
        chains
    }

    /// Returns the chains that codes need; each jumps only to earlier ones.
    pub(super) fn chains_of<'a>(&self, codes: impl Iterator<Item = &'a u32>) -> Vec<(Chain, Vec<Rule>)> {
        let mut seen = HashSet::new();
        codes
            .filter_map(|code| self.verdict_chains.get(code))
            .flat_map(|verdict_chain| verdict_chain.chains(&self.pods))
            .filter(|(chain, _)| seen.insert(chain.name.clone()))
            .collect()
    }

    /// Records that the kernel holds these codes.
    pub(super) fn mark_applied(&mut self, codes: &[u32]) {
        let chains = self.chains_of(codes.iter());
        self.chains
            .extend(chains.into_iter().map(|(chain, _)| chain.name));
        self.applied.extend(codes);
    }

    /// Records that the kernel holds exactly these codes.
    pub(super) fn set_applied(&mut self, codes: &[u32]) {
        self.chains.clear();
        self.applied.clear();
        self.mark_applied(codes);
        self.used_last = codes.len();
        self.verdict_chains.retain(|code, _| self.applied.contains(code));
        let used: HashSet<Verdict<String>> =
            self.verdict_chains.values().map(VerdictChain::verdict).collect();
        self.numbers.retain(|verdict, _| used.contains(verdict));
    }

    /// Returns true if enough codes are applied that a sweep for unused ones pays.
    pub(super) fn needs_sweep(&self) -> bool {
        self.applied.len() > self.used_last + UNUSED_MAX
    }

    /// Records that these codes are deleted. Returns the chains that no other code needs; each is jumped to only by
    /// earlier ones.
    pub(super) fn remove_applied(&mut self, unused: &[u32]) -> Vec<String> {
        let used: Vec<u32> = self
            .applied
            .iter()
            .copied()
            .filter(|code| !unused.contains(code))
            .collect();
        let mut chains: Vec<String> = self
            .chains_of(unused.iter())
            .into_iter()
            .map(|(chain, _)| chain.name)
            .collect();
        self.set_applied(&used);
        chains.retain(|chain| !self.chains.contains(chain));
        // Names of chains that jump to others contain a ".", because they list three actions.
        chains.sort_by_key(|chain| !chain.contains('.'));
        chains
    }

    /// Returns true if the kernel holds a code.
    pub(super) fn is_applied(&self, code: u32) -> bool {
        self.applied.contains(&code)
    }

    /// Returns the codes that the kernel holds.
    pub(super) fn applied(&self) -> impl Iterator<Item = u32> + '_ {
        self.applied.iter().copied()
    }
}
