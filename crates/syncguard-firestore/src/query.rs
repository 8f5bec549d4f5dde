//! Queries for documents.

use gcloud_sdk::google::firestore::v1::structured_query::composite_filter::Operator as Composite;
use gcloud_sdk::google::firestore::v1::structured_query::field_filter::Operator;
use gcloud_sdk::google::firestore::v1::structured_query::filter::FilterType;
use gcloud_sdk::google::firestore::v1::structured_query::{
    CollectionSelector, CompositeFilter, Direction, FieldFilter, FieldReference, Filter, Order,
};
use gcloud_sdk::google::firestore::v1::value::ValueType;
use gcloud_sdk::google::firestore::v1::{Cursor, Document, StructuredQuery, Value};
use syncguard_core::LockId;
use syncguard_core::inventory::ListRequest;

use crate::document::{LOCK_ID, key_of, string};

/// Queries all locks with this lock id.
pub(crate) fn by_lock_id(collection: &str, lock_id: LockId) -> StructuredQuery {
    StructuredQuery {
        from: within(collection),
        r#where: Some(filter(LOCK_ID, Operator::Equal, lock_id.expose())),
        ..StructuredQuery::default()
    }
}

/// Queries a page of documents, by their names for all keys, and else by a field that holds keys. A query by a field misses
/// documents that lack it or have something else in it.
pub(crate) fn page(collection: &str, field: &str, request: &ListRequest) -> StructuredQuery {
    let limit = Some(i32::try_from(request.page_size()).unwrap_or(i32::MAX));
    let query = StructuredQuery { from: within(collection), limit, ..StructuredQuery::default() };
    if request.expose_prefix().is_empty() {
        let name = |name: &str| ValueType::ReferenceValue(name.to_owned());
        let behind =
            |place| Cursor { values: vec![Value { value_type: Some(name(place)) }], before: false };
        let start_at = request.expose_place().map(behind);
        return StructuredQuery { order_by: by("__name__"), start_at, ..query };
    }
    let start = request.expose_start();
    let is_behind = request.expose_place() == Some(start);
    let from = if is_behind { Operator::GreaterThan } else { Operator::GreaterThanOrEqual };
    let filters =
        vec![filter(field, from, start), filter(field, Operator::LessThan, &request.expose_end())];
    let all = CompositeFilter { op: Composite::And.into(), filters };
    let all = Filter { filter_type: Some(FilterType::CompositeFilter(all)) };
    StructuredQuery { r#where: Some(all), order_by: by(field), ..query }
}

/// The request for the page behind this document.
pub(crate) fn behind(last: &Document, field: &str, request: &ListRequest) -> Option<ListRequest> {
    let place = if request.expose_prefix().is_empty() { &last.name } else { key_of(last, field)? };
    Some(request.behind(place))
}

fn by(field: &str) -> Vec<Order> {
    let field = Some(FieldReference { field_path: field.to_owned() });
    vec![Order { field, direction: Direction::Ascending.into() }]
}

fn within(collection: &str) -> Vec<CollectionSelector> {
    vec![CollectionSelector { collection_id: collection.to_owned(), all_descendants: false }]
}

fn filter(field: &str, op: Operator, text: &str) -> Filter {
    let filter = FieldFilter {
        field: Some(FieldReference { field_path: field.to_owned() }),
        op: op.into(),
        value: Some(string(text)),
    };
    Filter { filter_type: Some(FilterType::FieldFilter(filter)) }
}
