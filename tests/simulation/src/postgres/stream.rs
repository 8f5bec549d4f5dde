//! The driver's end of a connection.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What has arrived for the driver.
#[derive(Clone, Default)]
pub(crate) struct Inbox(Arc<Mutex<Arrived>>);

#[derive(Default)]
struct Arrived {
    bytes: VecDeque<u8>,
    /// Why nothing more comes.
    end: Option<ErrorKind>,
    waker: Option<Waker>,
}

impl Inbox {
    fn arrived(&self) -> MutexGuard<'_, Arrived> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, bytes: &[u8]) {
        let waker = {
            let mut arrived = self.arrived();
            if arrived.end.is_none() {
                arrived.bytes.extend(bytes);
            }
            arrived.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// The connection is lost.
    pub(crate) fn ends(&self, why: ErrorKind) {
        let waker = {
            let mut arrived = self.arrived();
            arrived.end.get_or_insert(why);
            arrived.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The way to the server.
pub(crate) trait Way: Send + Sync {
    fn write(&self, connection: u64, bytes: Vec<u8>);

    /// The driver has closed the connection.
    fn closes(&self, connection: u64);
}

/// A connection.
pub(crate) struct Stream {
    pub(crate) inbox: Inbox,
    pub(crate) way: Arc<dyn Way>,
    pub(crate) connection: u64,
    /// What is written before the next flush travels in one piece.
    pub(crate) written: Vec<u8>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.way.closes(self.connection);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut arrived = self.inbox.arrived();
        if arrived.bytes.is_empty() {
            if let Some(kind) = arrived.end {
                return Poll::Ready(Err(kind.into()));
            }
            arrived.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = buffer.remaining().min(arrived.bytes.len());
        let (first, second) = arrived.bytes.as_slices();
        let from_first = count.min(first.len());
        buffer.put_slice(&first[..from_first]);
        buffer.put_slice(&second[..count - from_first]);
        arrived.bytes.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(kind) = self.inbox.arrived().end {
            return Poll::Ready(Err(kind.into()));
        }
        self.written.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = std::mem::take(&mut self.written);
        if !written.is_empty() {
            self.way.write(self.connection, written);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}
