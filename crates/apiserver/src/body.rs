//! Response bodies: one buffer, a list made frame by frame from kept or from rendered text, a document in pieces, or a
//! stream.
//!
//! A list is never one contiguous buffer: frames of about 64 KB are filled as the connection takes them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Body, Frame, SizeHint};

use crate::object::Object;
use crate::rendered::Rendered;

pub(crate) const FRAME: usize = 64 * 1024;

pub(crate) enum ResponseBody {
    Empty,
    Full(Bytes),
    List(ListBody),
    Rendered(Box<Rendered>),
    Pieces(Pieces),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl From<Vec<u8>> for ResponseBody {
    fn from(bytes: Vec<u8>) -> Self {
        ResponseBody::Full(bytes.into())
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        ResponseBody::Full(bytes)
    }
}

/// A document whose pieces are made as the connection takes them.
pub(crate) struct Pieces {
    next: Box<dyn FnMut() -> Option<Vec<u8>> + Send>,
    /// A piece was just made: other tasks of the thread have their turn first.
    rests: bool,
}

impl Pieces {
    pub(crate) fn new(next: impl FnMut() -> Option<Vec<u8>> + Send + 'static) -> Pieces {
        Pieces { next: Box::new(next), rests: false }
    }

    /// The next frame: pieces until it is full.
    pub(crate) fn next_frame(&mut self) -> Option<Bytes> {
        let mut out = (self.next)()?;
        while out.len() < FRAME
            && let Some(piece) = (self.next)()
        {
            out.extend_from_slice(&piece);
        }
        self.rests = true;
        Some(out.into())
    }
}

/// A JSON list: a head, the items' own texts, a tail.
pub(crate) struct ListBody {
    head: Vec<u8>,
    objects: Vec<Arc<Object>>,
    next: usize,
    started: bool,
    left: u64,
}

impl ListBody {
    /// `head` ends just before the first item.
    pub(crate) fn new(head: Vec<u8>, objects: Vec<Arc<Object>>) -> ListBody {
        let items: usize = objects.iter().map(|o| 1 + o.item_rest().len()).sum();
        let commas = objects.len().saturating_sub(1);
        let left = (head.len() + items + commas + TAIL.len()) as u64;
        ListBody { head, objects, next: 0, started: false, left }
    }

    pub(crate) fn size(&self) -> u64 {
        self.left
    }

    pub(crate) fn next_frame(&mut self) -> Option<Bytes> {
        if self.left == 0 {
            return None;
        }
        let mut out = Vec::with_capacity(FRAME.min(self.left as usize) + 8192);
        if !self.started {
            self.started = true;
            out.append(&mut self.head);
        }
        while self.next < self.objects.len() && out.len() < FRAME {
            if self.next > 0 {
                out.push(b',');
            }
            out.push(b'{');
            out.extend_from_slice(self.objects[self.next].item_rest());
            self.next += 1;
        }
        if self.next == self.objects.len() {
            out.extend_from_slice(TAIL);
            self.objects = Vec::new();
            self.next = 0;
        }
        self.left = self.left.saturating_sub(out.len() as u64);
        Some(out.into())
    }
}

const TAIL: &[u8] = b"]}\n";

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut *self {
            ResponseBody::Empty => None,
            ResponseBody::Full(bytes) if bytes.is_empty() => None,
            ResponseBody::Full(bytes) => Some(std::mem::take(bytes)),
            ResponseBody::List(list) => list.next_frame(),
            ResponseBody::Rendered(list) => {
                if std::mem::take(&mut list.rests) && !list.is_over() {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                list.next_frame()
            }
            ResponseBody::Pieces(pieces) => {
                if std::mem::take(&mut pieces.rests) {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                pieces.next_frame()
            }
            ResponseBody::Stream(stream) => {
                return stream.as_mut().poll_next(context).map(|item| item.map(|b| Ok(Frame::data(b))));
            }
        };
        Poll::Ready(data.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Empty => true,
            ResponseBody::Full(bytes) => bytes.is_empty(),
            ResponseBody::List(list) => list.left == 0,
            ResponseBody::Rendered(list) => list.is_over(),
            ResponseBody::Pieces(_) | ResponseBody::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Empty => SizeHint::with_exact(0),
            ResponseBody::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            ResponseBody::List(list) => SizeHint::with_exact(list.left),
            ResponseBody::Rendered(_) | ResponseBody::Pieces(_) | ResponseBody::Stream(_) => {
                SizeHint::default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_joined_into_frames() {
        let mut sizes = vec![10, FRAME, 1, 2, 3, FRAME / 2, FRAME / 2, 7].into_iter();
        let mut pieces = Pieces::new(move || sizes.next().map(|size| vec![b'x'; size]));
        let frames: Vec<usize> =
            std::iter::from_fn(|| pieces.next_frame()).map(|frame| frame.len()).collect();
        assert_eq!(frames, [10 + FRAME, 6 + FRAME, 7]);
    }
}
