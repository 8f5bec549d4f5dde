//! The options that every backend has, and the methods that set them.

use std::time::Duration;

use super::backend_url::{BackendUrl, set};
use crate::client::{ClientState, ReleaseErrorHandler};
use crate::util::checked_timeout;
use crate::value::{Holder, LockError};

/// The part of a backend's options that every backend has. [`client_options`](crate::client_options) writes the methods
/// that set it.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The handler of releases that fail when no caller can get the error.
    pub on_release_error: ReleaseErrorHandler,
    /// The longest a release at the end of a guard may take.
    pub dispose_timeout: Duration,
    /// The label of the holder, if it is set.
    pub holder: Option<String>,
    /// The note of the holder, if it is set.
    pub note: Option<String>,
}

impl ClientOptions {
    /// Takes over the parameters `dispose_timeout_ms`, `holder` and `note` of a URL.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad value.
    pub fn read_url(&mut self, url: &BackendUrl<'_>) -> Result<(), LockError> {
        set(&mut self.dispose_timeout, url.millis("dispose_timeout_ms")?);
        if let Some(label) = url.text("holder")? {
            self.holder = Some(label);
        }
        if let Some(note) = url.text("note")? {
            self.note = Some(note);
        }
        Ok(())
    }

    /// The state of a backend with these options.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a timeout, a label or a note that is out of range.
    pub fn client_state(self) -> Result<ClientState, LockError> {
        let timeout = checked_timeout("dispose timeout", self.dispose_timeout)?;
        let holder = Holder::from_options(self.holder.as_deref(), self.note.as_deref())?;
        Ok(ClientState::default()
            .with_on_release_error(self.on_release_error)
            .with_dispose_timeout(timeout)
            .with_holder(holder))
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            on_release_error: ReleaseErrorHandler::default(),
            dispose_timeout: ClientState::DISPOSE_TIMEOUT,
            holder: None,
            note: None,
        }
    }
}

/// Writes the methods that set the [`ClientOptions`](crate::authoring::ClientOptions) in this field, for the options of a
/// backend.
#[doc(hidden)]
#[macro_export]
macro_rules! client_options {
    ($($field:ident).+) => {
        /// Calls this handler for releases that fail when no caller can get the error. Default: a warning in the log.
        pub fn with_on_release_error(
            mut self,
            handler: $crate::shared::ReleaseErrorHandler,
        ) -> Self {
            self.$($field).+.on_release_error = handler;
            self
        }

        /// The longest a release at the end of a guard may take, 1 ms to 100 years. Default: 5 s.
        pub fn with_dispose_timeout(mut self, timeout: ::std::time::Duration) -> Self {
            self.$($field).+.dispose_timeout = timeout;
            self
        }

        /// Names the holder of the locks, for people: the store keeps this label with each lock. Up to 128 bytes and no
        /// control characters; an empty label turns it off. Default: host name and process id. A
        /// [`Locker`](crate::Locker) or a [`LockConfig`](crate::LockConfig::with_holder) can set another label.
        pub fn with_holder(
            mut self,
            label: impl ::core::convert::Into<::std::string::String>,
        ) -> Self {
            self.$($field).+.holder = ::core::option::Option::Some(label.into());
            self
        }

        /// A note beside the [label](Self::with_holder), with the same limits. Default: none.
        pub fn with_note(
            mut self,
            note: impl ::core::convert::Into<::std::string::String>,
        ) -> Self {
            self.$($field).+.note = ::core::option::Option::Some(note.into());
            self
        }
    };
}
