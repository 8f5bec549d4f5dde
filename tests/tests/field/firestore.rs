//! Firestore.
