//! Calls of HNS on Windows. They have not run yet.

use std::ffi::c_void;
use std::ptr::null_mut;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::guid::Guid;
use crate::schema::{Endpoint, HnsId, HnsVersion, LoadBalancer, Network, PropertyQuery, decode};
use crate::service::{HnsError, HostNetworkService};

/// Handle of an open object.
type Handle = *mut c_void;
/// Result of a call; negative for a failure.
type HResult = i32;
/// UTF-16 text, terminated by zero, that HNS allocates.
type Text = *mut u16;

/// HRESULT of a function that is not implemented (`E_NOTIMPL`).
const NOT_IMPLEMENTED: u32 = 0x8000_4001;
/// HRESULTs of objects that do not exist: `HCN_E_NETWORK_NOT_FOUND`, `HCN_E_ENDPOINT_NOT_FOUND`, `ERROR_NOT_FOUND`.
const NOT_FOUND: [u32; 3] = [0x803B_0001, 0x803B_0002, 0x8007_0490];

#[link(name = "computenetwork", kind = "raw-dylib")]
unsafe extern "system" {
    fn HcnEnumerateNetworks(query: *const u16, ids: *mut Text, error: *mut Text) -> HResult;
    fn HcnOpenNetwork(id: *const Guid, network: *mut Handle, error: *mut Text) -> HResult;
    fn HcnQueryNetworkProperties(
        network: Handle,
        query: *const u16,
        properties: *mut Text,
        error: *mut Text,
    ) -> HResult;
    fn HcnCloseNetwork(network: Handle) -> HResult;
    fn HcnEnumerateEndpoints(query: *const u16, ids: *mut Text, error: *mut Text) -> HResult;
    fn HcnCreateEndpoint(
        network: Handle,
        id: *const Guid,
        settings: *const u16,
        endpoint: *mut Handle,
        error: *mut Text,
    ) -> HResult;
    fn HcnOpenEndpoint(id: *const Guid, endpoint: *mut Handle, error: *mut Text) -> HResult;
    fn HcnQueryEndpointProperties(
        endpoint: Handle,
        query: *const u16,
        properties: *mut Text,
        error: *mut Text,
    ) -> HResult;
    fn HcnDeleteEndpoint(id: *const Guid, error: *mut Text) -> HResult;
    fn HcnCloseEndpoint(endpoint: Handle) -> HResult;
    fn HcnEnumerateLoadBalancers(query: *const u16, ids: *mut Text, error: *mut Text) -> HResult;
    fn HcnCreateLoadBalancer(
        id: *const Guid,
        settings: *const u16,
        balancer: *mut Handle,
        error: *mut Text,
    ) -> HResult;
    fn HcnOpenLoadBalancer(id: *const Guid, balancer: *mut Handle, error: *mut Text) -> HResult;
    fn HcnModifyLoadBalancer(balancer: Handle, settings: *const u16, error: *mut Text) -> HResult;
    fn HcnQueryLoadBalancerProperties(
        balancer: Handle,
        query: *const u16,
        properties: *mut Text,
        error: *mut Text,
    ) -> HResult;
    fn HcnDeleteLoadBalancer(id: *const Guid, error: *mut Text) -> HResult;
    fn HcnCloseLoadBalancer(balancer: Handle) -> HResult;
}

#[link(name = "vmcompute", kind = "raw-dylib")]
unsafe extern "system" {
    fn HNSCall(method: *const u16, path: *const u16, object: *const u16, response: *mut Text) -> HResult;
}

#[link(name = "ole32", kind = "raw-dylib")]
unsafe extern "system" {
    fn CoTaskMemFree(memory: *const c_void);
}

type Enumerate = unsafe extern "system" fn(*const u16, *mut Text, *mut Text) -> HResult;
type Open = unsafe extern "system" fn(*const Guid, *mut Handle, *mut Text) -> HResult;
type Properties = unsafe extern "system" fn(Handle, *const u16, *mut Text, *mut Text) -> HResult;
type Close = unsafe extern "system" fn(Handle) -> HResult;
type Delete = unsafe extern "system" fn(*const Guid, *mut Text) -> HResult;

/// Functions for objects of one kind.
struct Kind {
    name: &'static str,
    enumerate: Enumerate,
    open: Open,
    properties: Properties,
    close: Close,
}

const NETWORKS: Kind = Kind {
    name: "networks of HNS",
    enumerate: HcnEnumerateNetworks,
    open: HcnOpenNetwork,
    properties: HcnQueryNetworkProperties,
    close: HcnCloseNetwork,
};
const ENDPOINTS: Kind = Kind {
    name: "endpoints of HNS",
    enumerate: HcnEnumerateEndpoints,
    open: HcnOpenEndpoint,
    properties: HcnQueryEndpointProperties,
    close: HcnCloseEndpoint,
};
const LOAD_BALANCERS: Kind = Kind {
    name: "load balancers of HNS",
    enumerate: HcnEnumerateLoadBalancers,
    open: HcnOpenLoadBalancer,
    properties: HcnQueryLoadBalancerProperties,
    close: HcnCloseLoadBalancer,
};

/// An open object, closed when dropped.
struct Object {
    handle: Handle,
    kind: &'static Kind,
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the handle is open, of this kind, and not used afterwards.
        unsafe { (self.kind.close)(self.handle) };
    }
}

/// The field `ID` of properties.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Identity {
    #[serde(rename = "ID")]
    id: HnsId,
}

/// HNS of this host.
#[derive(Debug, Default)]
pub struct WindowsHost;

impl HostNetworkService for WindowsHost {
    fn version(&mut self) -> Result<HnsVersion, HnsError> {
        const CALL: &str = "HNSCall";
        let [method, path, object] = ["GET", "/globals/version", ""].map(to_utf16);
        let mut response = null_mut();
        // SAFETY: the texts are terminated and outlive the call; `response` is valid for a write.
        let result = unsafe { HNSCall(method.as_ptr(), path.as_ptr(), object.as_ptr(), &mut response) };
        let text = take_text(response);
        check(CALL, result, null_mut())?;
        let value: Value = read(CALL, &text)?;
        let output = value.get("Output").cloned().unwrap_or_default();
        HnsVersion::deserialize(output).map_err(|source| HnsError::Json { call: CALL, source })
    }

    fn networks(&mut self) -> Result<Vec<Network>, HnsError> {
        list(&NETWORKS)
    }

    fn endpoints(&mut self) -> Result<Vec<Endpoint>, HnsError> {
        list(&ENDPOINTS)
    }

    fn load_balancers(&mut self) -> Result<Vec<LoadBalancer>, HnsError> {
        list(&LOAD_BALANCERS)
    }

    fn create_endpoint(&mut self, endpoint: &Endpoint) -> Result<HnsId, HnsError> {
        const CALL: &str = "HcnCreateEndpoint";
        let network = open(&NETWORKS, &endpoint.host_compute_network)?;
        let settings = wide_json(CALL, endpoint)?;
        let id = Guid::default();
        let (mut handle, mut error) = (null_mut(), null_mut());
        // SAFETY: the network is open; `id` and `settings` outlive the call; both results are valid for a write.
        let result =
            unsafe { HcnCreateEndpoint(network.handle, &id, settings.as_ptr(), &mut handle, &mut error) };
        check(CALL, result, error)?;
        let kind = &ENDPOINTS;
        identity(&Object { handle, kind })
    }

    fn delete_endpoint(&mut self, id: &HnsId) -> Result<(), HnsError> {
        delete("HcnDeleteEndpoint", HcnDeleteEndpoint, id)
    }

    fn create_load_balancer(&mut self, balancer: &LoadBalancer) -> Result<HnsId, HnsError> {
        const CALL: &str = "HcnCreateLoadBalancer";
        let settings = wide_json(CALL, balancer)?;
        let id = Guid::default();
        let (mut handle, mut error) = (null_mut(), null_mut());
        // SAFETY: `id` and `settings` outlive the call; both results are valid for a write.
        let result = unsafe { HcnCreateLoadBalancer(&id, settings.as_ptr(), &mut handle, &mut error) };
        check(CALL, result, error)?;
        let kind = &LOAD_BALANCERS;
        identity(&Object { handle, kind })
    }

    fn modify_load_balancer(&mut self, balancer: &LoadBalancer) -> Result<(), HnsError> {
        const CALL: &str = "HcnModifyLoadBalancer";
        let object = open(&LOAD_BALANCERS, &balancer.id)?;
        let settings = wide_json(CALL, balancer)?;
        let mut error = null_mut();
        // SAFETY: the object is open; `settings` outlives the call; `error` is valid for a write.
        let result = unsafe { HcnModifyLoadBalancer(object.handle, settings.as_ptr(), &mut error) };
        check(CALL, result, error)
    }

    fn delete_load_balancer(&mut self, id: &HnsId) -> Result<(), HnsError> {
        delete("HcnDeleteLoadBalancer", HcnDeleteLoadBalancer, id)
    }
}

/// Returns all objects of a kind. An object that disappears meanwhile is left out.
fn list<T: DeserializeOwned>(kind: &'static Kind) -> Result<Vec<T>, HnsError> {
    let query = wide_json(kind.name, &PropertyQuery::default())?;
    let (mut ids, mut error) = (null_mut(), null_mut());
    // SAFETY: the query outlives the call; both results are valid for a write.
    let result = unsafe { (kind.enumerate)(query.as_ptr(), &mut ids, &mut error) };
    let ids = take_text(ids);
    check(kind.name, result, error)?;
    let mut found = Vec::new();
    for id in read::<Vec<HnsId>>(kind.name, &ids)? {
        match open(kind, &id).and_then(|object| properties(&object)) {
            Ok(object) => found.push(object),
            Err(HnsError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn open(kind: &'static Kind, id: &HnsId) -> Result<Object, HnsError> {
    let id = guid(kind.name, id)?;
    let (mut handle, mut error) = (null_mut(), null_mut());
    // SAFETY: `id` outlives the call; both results are valid for a write.
    let result = unsafe { (kind.open)(&id, &mut handle, &mut error) };
    check(kind.name, result, error)?;
    Ok(Object { handle, kind })
}

fn properties<T: DeserializeOwned>(object: &Object) -> Result<T, HnsError> {
    let name = object.kind.name;
    let query = wide_json(name, &PropertyQuery::default())?;
    let (mut text, mut error) = (null_mut(), null_mut());
    // SAFETY: the object is open; the query outlives the call; both results are valid for a write.
    let result = unsafe { (object.kind.properties)(object.handle, query.as_ptr(), &mut text, &mut error) };
    let text = take_text(text);
    check(name, result, error)?;
    read(name, &text)
}

fn identity(object: &Object) -> Result<HnsId, HnsError> {
    properties::<Identity>(object).map(|found| found.id)
}

fn delete(call: &'static str, function: Delete, id: &HnsId) -> Result<(), HnsError> {
    let id = guid(call, id)?;
    let mut error = null_mut();
    // SAFETY: `id` outlives the call; `error` is valid for a write.
    let result = unsafe { function(&id, &mut error) };
    check(call, result, error)
}

/// Turns the result of a call into a `Result`, and frees the error record.
fn check(call: &'static str, result: HResult, error: Text) -> Result<(), HnsError> {
    let reason = take_text(error);
    if result >= 0 {
        return Ok(());
    }
    let code = result.cast_unsigned();
    Err(match code {
        NOT_IMPLEMENTED => HnsError::NotImplemented { call },
        code if NOT_FOUND.contains(&code) => HnsError::NotFound { call },
        code => HnsError::Refused { call, code, reason },
    })
}

fn guid(call: &'static str, id: &HnsId) -> Result<Guid, HnsError> {
    id.as_str()
        .parse()
        .map_err(|source| HnsError::Identifier { call, source })
}

fn read<T: DeserializeOwned>(call: &'static str, text: &str) -> Result<T, HnsError> {
    decode(text).map_err(|source| HnsError::Json { call, source })
}

/// Returns UTF-16 text with a terminating zero.
fn to_utf16(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

fn wide_json(call: &'static str, value: &impl Serialize) -> Result<Vec<u16>, HnsError> {
    match serde_json::to_string(value) {
        Ok(text) => Ok(to_utf16(&text)),
        Err(source) => Err(HnsError::Json { call, source }),
    }
}

/// Copies and frees text of HNS; null is "".
fn take_text(text: Text) -> String {
    if text.is_null() {
        return String::new();
    }
    let mut length = 0;
    // SAFETY: HNS terminates its texts with zero, so all units before it are readable.
    let units = unsafe {
        while *text.add(length) != 0 {
            length += 1;
        }
        std::slice::from_raw_parts(text, length)
    };
    let copy = String::from_utf16_lossy(units);
    // SAFETY: HNS allocates its texts with `CoTaskMemAlloc`, and nothing refers to this one any more.
    unsafe { CoTaskMemFree(text.cast_const().cast()) };
    copy
}
