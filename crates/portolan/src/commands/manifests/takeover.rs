//! Steps of the takeover from other components, as comments of the manifests.

use super::flags::{Predecessor, value_name};

/// Lines of a section.
type Lines = &'static [&'static str];

/// Steps of a takeover: commands, or sentences where the command depends on the cluster.
struct Steps {
    /// Steps before the manifests are applied.
    before: Lines,
    /// Steps after that.
    after: Lines,
    /// Way back.
    back: Lines,
}

const KUBE_PROXY: Steps = Steps {
    before: &[
        "Only if kube-proxy runs in iptables or ipvs mode. Load the image of the proxy on all nodes first:",
        r#"kubectl -n kube-system patch daemonset kube-proxy --type=merge -p '{"spec":{"template":{"spec":{"nodeSelector":{"no-such":"node"}}}}}'"#,
    ],
    after: &[
        "kubectl -n kube-system rollout status daemonset/portolan-proxy",
        r#"kubectl -n kube-system patch daemonset kube-proxy --type=merge -p '{"spec":{"template":{"spec":{"nodeSelector":{"no-such":"node"}}}}}'"#,
    ],
    back: &[
        "In iptables and ipvs mode, delete portolan-proxy first. Otherwise let both run for a moment:",
        r#"kubectl -n kube-system patch daemonset kube-proxy --type=merge -p '{"spec":{"template":{"spec":{"nodeSelector":{"no-such":null}}}}}'"#,
        "kubectl -n kube-system rollout status daemonset/kube-proxy",
        "kubectl -n kube-system delete daemonset portolan-proxy",
        "On each node, when kube-proxy has applied its rules, unless the mode is iptables: nft delete table inet portolan",
    ],
};

const COREDNS: Steps = Steps {
    before: &[],
    after: &[
        "kubectl -n kube-system rollout status deployment/portolan-dns",
        "Remove CoreDNS from the Service, and stop it when the proxies have moved all clients:",
        r#"kubectl -n kube-system patch service kube-dns --type=merge -p '{"spec":{"selector":{"app.kubernetes.io/name":"portolan-dns"}}}'"#,
        "sleep 10",
        "kubectl -n kube-system scale deployment/coredns --replicas=0",
        "kubectl -n kube-system wait pod -l k8s-app=kube-dns,app.kubernetes.io/name!=portolan-dns --for=delete --timeout=60s",
        r#"kubectl -n kube-system patch service kube-dns --type=merge -p '{"spec":{"selector":{"app.kubernetes.io/name":null}}}'"#,
    ],
    back: &[
        "kubectl -n kube-system scale deployment/coredns --replicas=2",
        "kubectl -n kube-system rollout status deployment/coredns",
        "kubectl -n kube-system label pods -l app.kubernetes.io/name=portolan-dns k8s-app-",
        "sleep 10",
        "kubectl -n kube-system delete deployment/portolan-dns",
    ],
};

const METALLB: Steps = Steps {
    before: &[
        "Load the image on all nodes, so that these steps and the next one follow each other closely:",
        "kubectl -n metallb-system delete deployment/controller daemonset/speaker",
        "kubectl delete validatingwebhookconfiguration metallb-webhook-configuration",
    ],
    after: &[
        "kubectl -n NAMESPACE rollout status daemonset/portolan-announcer",
        "kubectl -n NAMESPACE rollout status deployment/portolan-assigner",
    ],
    back: &[
        "kubectl -n NAMESPACE delete daemonset/portolan-announcer deployment/portolan-assigner",
        "Apply the manifests of MetalLB.",
    ],
};

const KUBE_CONTROLLER_MANAGER: Steps = Steps {
    before: &[],
    after: &[
        "kubectl -n NAMESPACE rollout status deployment/portolan-controllers",
        "kubectl -n kube-system wait lease/portolan-controllers --for=jsonpath='{.spec.holderIdentity}' --timeout=60s",
        "Add this flag to kube-controller-manager, and wait for its restart:",
        "--controllers=*,-endpointslice-controller,-endpoints-controller,-endpointslice-mirroring-controller",
    ],
    back: &[
        "Remove the flag from kube-controller-manager, and wait until it is healthy.",
        "kubectl -n NAMESPACE delete deployment/portolan-controllers",
    ],
};

impl Predecessor {
    fn steps(self) -> &'static Steps {
        match self {
            Self::KubeProxy => &KUBE_PROXY,
            Self::Coredns => &COREDNS,
            Self::Metallb => &METALLB,
            Self::KubeControllerManager => &KUBE_CONTROLLER_MANAGER,
        }
    }
}

/// Returns the steps of all takeovers as YAML comments, or nothing without a takeover.
pub(super) fn comments(predecessors: &[Predecessor], namespace: &str) -> String {
    if predecessors.is_empty() {
        return String::new();
    }
    let sections: [(&str, fn(&Steps) -> Lines); 3] = [
        ("Before you apply these manifests", |steps| steps.before),
        ("After you have applied them", |steps| steps.after),
        ("To go back", |steps| steps.back),
    ];
    let names: Vec<String> = predecessors.iter().copied().map(value_name).collect();
    let mut text = format!("# Takeover from {}.\n", names.join(", "));
    for (title, of) in sections {
        let steps: Vec<&str> = predecessors
            .iter()
            .flat_map(|one| of(one.steps()))
            .copied()
            .collect();
        if steps.is_empty() {
            continue;
        }
        text.push_str(&format!("#\n# {title}:\n"));
        for step in steps {
            text.push_str(&format!("#   {}\n", step.replace("NAMESPACE", namespace)));
        }
    }
    text
}
