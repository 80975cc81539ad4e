use std::time::Instant;

use futures_util::FutureExt;
use http_body_util::BodyExt;

use super::super::activity::Activity;
use super::*;
use crate::access::authentication::Identity;
use crate::access::flow_control::{FlowControl, RequestLimits, Subject};
use crate::transport::response::ResponseMemory;

/// Half of the memory of a user.
const RESPONSE_BYTES: usize = 32 << 20;

/// Takes the first frame of a body, as HTTP/2 does before the client grants a window.
fn first_frame(body: &mut CountedBody) -> Bytes {
    let frame = body.frame().now_or_never().flatten();
    let frame = frame.expect("a frame").expect("a body without errors");
    frame.into_data().expect("data")
}

/// A client that grants a window of one octet makes HTTP/2 take the whole body, and send nothing of it.
#[test]
fn sent_frames_hold_the_memory_of_their_response() {
    let control = FlowControl::new(RequestLimits::default());
    let identity = Identity {
        user: "ann".to_owned(),
        groups: vec!["system:authenticated".to_owned()],
        ..Identity::default()
    };
    let flow = control.flow(&identity, Subject::default());
    let memory = Arc::new(ResponseMemory::new());
    let has_room = || memory.begin(flow.user, flow.reserve_access()).is_ok();
    let begun = memory.begin(flow.user, flow.reserve_access());
    let mut permit = begun.expect("memory");
    let mut other = memory.begin(flow.user, flow.reserve_access()).expect("memory");
    for response in [&mut permit, &mut other] {
        response.reserve(RESPONSE_BYTES, false).expect("memory");
    }
    let activity = Arc::new(Activity::new(Instant::now()));
    let in_flight = activity.begin().with_permit(Some(Arc::new(permit)));
    let mut body = CountedBody::new(Body::Whole(Some(Bytes::from_static(b"{}"))), in_flight);
    let frame = first_frame(&mut body);
    assert_eq!(frame, "{}");
    assert!(body.is_end_stream());
    drop(body);
    assert!(!has_room());
    drop(frame);
    assert!(has_room());
}
