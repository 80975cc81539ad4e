//! A model of HNS for tests. Like HNS, it refuses two load balancers with one address and port, load balancers of
//! unknown endpoints, and the deletion of endpoints in use.

use std::collections::HashMap;

use crate::schema::{Endpoint, HnsId, HnsVersion, LoadBalancer, Network};
use crate::service::{HnsError, HostNetworkService};
use crate::tests::test_plans::{VERSION, network};

/// State of HNS.
pub(crate) struct FakeHost {
    pub version: HnsVersion,
    pub networks: Vec<Network>,
    pub endpoints: Vec<Endpoint>,
    pub balancers: Vec<LoadBalancer>,
    /// Number of calls that each function refuses next.
    pub refusals: HashMap<&'static str, usize>,
    /// False if load balancers cannot be modified.
    pub has_modify: bool,
    /// True if load balancers are returned without flags of ports.
    pub forgets_flags: bool,
    /// Calls that change the state.
    pub changes: usize,
    created: u32,
}

impl FakeHost {
    pub(crate) fn new(kind: &str) -> Self {
        Self {
            version: VERSION,
            networks: vec![network(kind)],
            endpoints: Vec::new(),
            balancers: Vec::new(),
            refusals: HashMap::new(),
            has_modify: true,
            forgets_flags: false,
            changes: 0,
            created: 0,
        }
    }

    fn next_id(&mut self) -> HnsId {
        self.created += 1;
        HnsId::from(format!("c0000000-0000-0000-0000-{:012x}", self.created))
    }

    fn enter(&mut self, call: &'static str) -> Result<(), HnsError> {
        self.changes += 1;
        match self.refusals.get_mut(call) {
            Some(left) if *left > 0 => {
                *left -= 1;
                Err(refused_error(call, "out of resources"))
            }
            _ => Ok(()),
        }
    }

    fn check(&self, call: &'static str, balancer: &LoadBalancer) -> Result<(), HnsError> {
        let identity = |of: &LoadBalancer| {
            let mapping = of.port_mappings[0];
            let vips = of.frontend_vips.clone();
            (vips, mapping.protocol, mapping.external_port, of.flags & 2)
        };
        let mut others = self.balancers.iter().filter(|other| other.id != balancer.id);
        if others.any(|other| identity(other) == identity(balancer)) {
            return Err(refused_error(call, "the object already exists"));
        }
        let knows = |id: &HnsId| self.endpoints.iter().any(|endpoint| endpoint.id == *id);
        if balancer.endpoints.is_empty() || !balancer.endpoints.iter().all(knows) {
            return Err(refused_error(call, "no such endpoint"));
        }
        Ok(())
    }
}

fn refused_error(call: &'static str, reason: &str) -> HnsError {
    HnsError::Refused {
        call,
        code: 0x8007_0005,
        reason: reason.to_owned(),
    }
}

impl HostNetworkService for FakeHost {
    fn version(&mut self) -> Result<HnsVersion, HnsError> {
        Ok(self.version)
    }

    fn networks(&mut self) -> Result<Vec<Network>, HnsError> {
        Ok(self.networks.clone())
    }

    fn endpoints(&mut self) -> Result<Vec<Endpoint>, HnsError> {
        Ok(self.endpoints.clone())
    }

    fn load_balancers(&mut self) -> Result<Vec<LoadBalancer>, HnsError> {
        let mut balancers = self.balancers.clone();
        if self.forgets_flags {
            let mappings = balancers.iter_mut().flat_map(|of| &mut of.port_mappings);
            mappings.for_each(|mapping| mapping.flags = 0);
        }
        Ok(balancers)
    }

    fn create_endpoint(&mut self, endpoint: &Endpoint) -> Result<HnsId, HnsError> {
        self.enter("create_endpoint")?;
        let id = self.next_id();
        self.endpoints.push(Endpoint {
            id: id.clone(),
            ..endpoint.clone()
        });
        Ok(id)
    }

    fn delete_endpoint(&mut self, id: &HnsId) -> Result<(), HnsError> {
        self.enter("delete_endpoint")?;
        if self.balancers.iter().any(|of| of.endpoints.contains(id)) {
            return Err(refused_error("delete_endpoint", "in use"));
        }
        self.endpoints.retain(|endpoint| endpoint.id != *id);
        Ok(())
    }

    fn create_load_balancer(&mut self, balancer: &LoadBalancer) -> Result<HnsId, HnsError> {
        self.enter("create_load_balancer")?;
        self.check("create_load_balancer", balancer)?;
        let id = self.next_id();
        self.balancers.push(LoadBalancer {
            id: id.clone(),
            ..balancer.clone()
        });
        Ok(id)
    }

    fn modify_load_balancer(&mut self, balancer: &LoadBalancer) -> Result<(), HnsError> {
        const CALL: &str = "modify_load_balancer";
        self.enter(CALL)?;
        if !self.has_modify {
            return Err(HnsError::NotImplemented { call: CALL });
        }
        self.check(CALL, balancer)?;
        let mut known = self.balancers.iter_mut();
        match known.find(|of| of.id == balancer.id) {
            Some(found) => {
                *found = balancer.clone();
                Ok(())
            }
            None => Err(HnsError::NotFound { call: CALL }),
        }
    }

    fn delete_load_balancer(&mut self, id: &HnsId) -> Result<(), HnsError> {
        self.enter("delete_load_balancer")?;
        self.balancers.retain(|of| of.id != *id);
        Ok(())
    }
}
