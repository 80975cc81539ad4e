//! Codes of treatments: what frontends hold, and what the verdict map leads on from.

use std::collections::{HashMap, HashSet};

use netlink::nftables::{Chain, Rule, Verdict};
use plan::PodDetection;

use super::bytes::Bytes;
use super::item::{Datum, Item, Place};
use super::rules::MASQUERADE_BITS;
use super::treatment::Treatment;

/// Unused treatments that are left in force before they are swept away. Counts of endpoints come and go, and
/// a treatment that is there already costs nothing; a thousand of them cost the kernel a megabyte.
const UNUSED_MAX: usize = 256;

/// The treatments that have a code.
#[derive(Debug, Default)]
pub struct Codes {
    /// The upper bits of the code: which verdict.
    numbers: HashMap<Verdict<String>, u32>,
    /// What each code stands for; several treatments that differ in nothing but who asks share one.
    treatments: HashMap<u32, Treatment>,
    /// Codes that the kernel knows.
    in_force: HashSet<u32>,
    /// Chains that the kernel knows.
    chains: HashSet<String>,
    next_number: u32,
    /// How the chains tell Pods from others.
    pods: PodDetection,
    /// How many codes were in use when unused ones were last swept away.
    used_last: usize,
}

impl Codes {
    /// No codes yet, for chains that tell Pods from others like this.
    pub fn new(pods: PodDetection) -> Self {
        Self {
            pods,
            ..Self::default()
        }
    }

    /// Says how chains tell Pods from others from now on; whether that makes chains in force wrong. Ranges
    /// are elements of a set, so that chains do not depend on which.
    pub fn set_pods(&mut self, pods: &PodDetection) -> bool {
        let is_same = match (&self.pods, pods) {
            (PodDetection::Ranges(_), PodDetection::Ranges(_)) => true,
            (before, now) => before == now,
        };
        self.pods.clone_from(pods);
        !is_same && !self.in_force.is_empty()
    }

    /// The code of a treatment, a new one if it has none.
    pub fn code(&mut self, treatment: Treatment) -> u32 {
        let next = self.next_number;
        let number = *self.numbers.entry(treatment.verdict()).or_insert(next);
        if number == next {
            self.next_number += 1;
        }
        let code = number << MASQUERADE_BITS.count_ones() | treatment.masquerade_bits;
        self.treatments.entry(code).or_insert(treatment);
        code
    }

    /// Takes note of a code that an earlier process left.
    pub fn remember(&mut self, code: u32, verdict: Verdict<String>) {
        let number = code >> MASQUERADE_BITS.count_ones();
        self.next_number = self.next_number.max(number + 1);
        self.numbers.entry(verdict).or_insert(number);
    }

    /// The element of a code.
    pub fn item(&self, code: u32) -> Option<Item> {
        let treatment = self.treatments.get(&code)?;
        let place = Place::Treatments;
        Some(Item {
            datum: Datum::Verdict(treatment.verdict()),
            ..Item::key(place, Bytes::new().mark(code))
        })
    }

    /// Those codes that the kernel does not know yet, each once.
    pub fn missing(&self, codes: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut missing: Vec<u32> = codes.filter(|code| !self.in_force.contains(code)).collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// The chains that codes need and the kernel does not know, those that lead to others last.
    pub fn missing_chains(&self, codes: &[u32]) -> Vec<(Chain, Vec<Rule>)> {
        let mut chains = self.chains_of(codes.iter());
        chains.retain(|(chain, _)| !self.chains.contains(&chain.name));
        chains
    }

    /// The chains that codes need, those that lead to others last.
    pub fn chains_of<'a>(&self, codes: impl Iterator<Item = &'a u32>) -> Vec<(Chain, Vec<Rule>)> {
        let mut seen = HashSet::new();
        codes
            .filter_map(|code| self.treatments.get(code))
            .flat_map(|treatment| treatment.chains(&self.pods))
            .filter(|(chain, _)| seen.insert(chain.name.clone()))
            .collect()
    }

    /// Takes note that the kernel knows these.
    pub fn put_in_force(&mut self, codes: &[u32]) {
        let chains = self.chains_of(codes.iter());
        self.chains
            .extend(chains.into_iter().map(|(chain, _)| chain.name));
        self.in_force.extend(codes);
    }

    /// Takes note that the kernel knows these and no others.
    pub fn set_in_force(&mut self, codes: &[u32]) {
        self.chains.clear();
        self.in_force.clear();
        self.put_in_force(codes);
        self.used_last = codes.len();
        self.treatments.retain(|code, _| self.in_force.contains(code));
        let used: HashSet<Verdict<String>> = self.treatments.values().map(Treatment::verdict).collect();
        self.numbers.retain(|verdict, _| used.contains(verdict));
    }

    /// Whether so many codes are in force that it is time to look for unused ones.
    pub fn is_crowded(&self) -> bool {
        self.in_force.len() > self.used_last + UNUSED_MAX
    }

    /// Takes note that these codes are not in force any more; names of chains that none of the others need, those
    /// that lead to others first.
    pub fn take_out_of_force(&mut self, unused: &[u32]) -> Vec<String> {
        let used: Vec<u32> = self
            .in_force
            .iter()
            .copied()
            .filter(|code| !unused.contains(code))
            .collect();
        let mut chains: Vec<String> = self
            .chains_of(unused.iter())
            .into_iter()
            .map(|(chain, _)| chain.name)
            .collect();
        self.set_in_force(&used);
        chains.retain(|chain| !self.chains.contains(chain));
        // A chain that leads to others has a "." in its name, as it says three outcomes.
        chains.sort_by_key(|chain| !chain.contains('.'));
        chains
    }

    /// Whether the kernel knows a code.
    pub fn is_in_force(&self, code: u32) -> bool {
        self.in_force.contains(&code)
    }

    /// Codes that the kernel knows.
    pub fn in_force(&self) -> impl Iterator<Item = u32> + '_ {
        self.in_force.iter().copied()
    }
}
