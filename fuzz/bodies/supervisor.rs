//! Frames between the runtime and a pod's supervisor: a message that decodes is written in a form that decodes to the
//! same message.

use std::fmt::Debug;

use corten_sys::wire::{Answer, Request, Wire, frame, take_frame};

pub(crate) fn check(data: &[u8]) {
    check_frames::<Request>(data);
    check_frames::<Answer>(data);
}

fn check_frames<T: Wire + PartialEq + Debug>(data: &[u8]) {
    let mut received = data.to_vec();
    while let Ok(Some((number, message))) = take_frame::<T>(&mut received) {
        let again = take_frame(&mut frame(number, &message));
        assert_eq!(again, Ok(Some((number, message))));
    }
}
