//! The messages of etcd's API that locks need, with the tags of `rpc.proto`, `kv.proto` and `auth.proto` of etcd 3.4. Fields
//! that locks do not use are left out: the protocol skips fields that a reader does not know.

#![allow(missing_docs, reason = "the names are etcd's")]
#![allow(unreachable_pub, reason = "the simulation reads and writes the messages")]

use prost::{Message, Oneof};

/// Writes a struct for each message, with the type of each field and its attributes for prost.
macro_rules! messages {
    ($($(#[$about:meta])* $name:ident {
        $($(#[$note:meta])* $field:ident: $type:ty = [$($attribute:tt)*],)*
    })*) => {$(
        $(#[$about])*
        #[derive(Clone, PartialEq, Message)]
        pub struct $name {
            $($(#[$note])* #[prost($($attribute)*)] pub $field: $type,)*
        }
    )*};
}

messages! {
    ResponseHeader {
        cluster_id: u64 = [uint64, tag = "1"],
        /// The revision of the store when the request was applied.
        revision: i64 = [int64, tag = "3"],
    }

    KeyValue {
        key: Vec<u8> = [bytes = "vec", tag = "1"],
        mod_revision: i64 = [int64, tag = "3"],
        value: Vec<u8> = [bytes = "vec", tag = "5"],
    }

    RangeRequest {
        key: Vec<u8> = [bytes = "vec", tag = "1"],
        /// Empty for the one key.
        range_end: Vec<u8> = [bytes = "vec", tag = "2"],
        limit: i64 = [int64, tag = "3"],
        /// 0 for the present one.
        revision: i64 = [int64, tag = "4"],
        /// Without the values.
        keys_only: bool = [bool, tag = "8"],
    }

    RangeResponse {
        kvs: Vec<KeyValue> = [message, repeated, tag = "2"],
        /// There are more keys than the limit.
        more: bool = [bool, tag = "3"],
    }

    PutRequest {
        key: Vec<u8> = [bytes = "vec", tag = "1"],
        value: Vec<u8> = [bytes = "vec", tag = "2"],
    }

    DeleteRangeRequest {
        key: Vec<u8> = [bytes = "vec", tag = "1"],
    }

    RequestOp {
        request: Option<Request> = [oneof = "Request", tags = "1, 2, 3, 4"],
    }

    /// Changes have answers too, without anything in them that locks need.
    ResponseOp {
        range: Option<RangeResponse> = [message, optional, tag = "1"],
        txn: Option<TxnResponse> = [message, optional, tag = "4"],
    }

    /// A condition of a transaction: always an equality here, which is `result` 0.
    Compare {
        /// [`MOD_REVISION`] or [`VALUE`].
        target: i32 = [int32, tag = "2"],
        key: Vec<u8> = [bytes = "vec", tag = "3"],
        target_union: Option<Target> = [oneof = "Target", tags = "6, 7"],
    }

    /// The member carries out `success` as one step if each condition in `compare` holds, and else `failure`.
    TxnRequest {
        compare: Vec<Compare> = [message, repeated, tag = "1"],
        success: Vec<RequestOp> = [message, repeated, tag = "2"],
        failure: Vec<RequestOp> = [message, repeated, tag = "3"],
    }

    TxnResponse {
        header: Option<ResponseHeader> = [message, optional, tag = "1"],
        succeeded: bool = [bool, tag = "2"],
        responses: Vec<ResponseOp> = [message, repeated, tag = "3"],
    }

    WatchRequest {
        request_union: Option<WatchUnion> = [oneof = "WatchUnion", tags = "1, 2"],
    }

    WatchCreateRequest {
        key: Vec<u8> = [bytes = "vec", tag = "1"],
        filters: Vec<i32> = [int32, repeated, tag = "5"],
    }

    WatchCancelRequest {
        watch_id: i64 = [int64, tag = "1"],
    }

    WatchResponse {
        watch_id: i64 = [int64, tag = "2"],
        created: bool = [bool, tag = "3"],
        canceled: bool = [bool, tag = "4"],
        events: Vec<Event> = [message, repeated, tag = "11"],
    }

    Event {
        /// 0 for a write, [`DELETE`] for a deletion.
        r#type: i32 = [int32, tag = "1"],
    }

    AuthenticateRequest {
        name: String = [string, tag = "1"],
        password: String = [string, tag = "2"],
    }

    AuthenticateResponse {
        token: String = [string, tag = "2"],
    }

    StatusResponse {
        version: String = [string, tag = "2"],
        /// The size of the database on the disk, in bytes.
        db_size: i64 = [int64, tag = "3"],
        /// The id of the leader; 0 without one.
        leader: u64 = [uint64, tag = "4"],
        is_learner: bool = [bool, tag = "10"],
    }

    MemberListResponse {
        members: Vec<Member> = [message, repeated, tag = "2"],
    }

    Member {
        is_learner: bool = [bool, tag = "5"],
    }

    AlarmResponse {
        alarms: Vec<AlarmMember> = [message, repeated, tag = "2"],
    }

    AlarmMember {
        /// 1: no space, 2: corrupt.
        alarm: i32 = [int32, tag = "2"],
    }
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
    /// A transaction in another: its conditions are compared before anything is written.
    #[prost(message, tag = "4")]
    Txn(TxnRequest),
}

pub const MOD_REVISION: i32 = 2;
pub const VALUE: i32 = 3;

#[derive(Clone, PartialEq, Oneof)]
pub enum Target {
    /// 0 for a key that is absent.
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    #[prost(bytes, tag = "7")]
    Value(Vec<u8>),
}

#[derive(Clone, PartialEq, Oneof)]
pub enum WatchUnion {
    #[prost(message, tag = "1")]
    Create(WatchCreateRequest),
    #[prost(message, tag = "2")]
    Cancel(WatchCancelRequest),
}

/// A filter: no events of writes.
pub const NO_PUT: i32 = 0;

pub const DELETE: i32 = 1;
