-- A schema `evil` with an overload of everything that our statements name: types, a collation, operators and
-- functions, for all mixtures of these types. All roles can find them and only the owner can call them: a statement
-- that names one of them fails before it begins. {names} are the functions.
CREATE SCHEMA evil;
GRANT USAGE ON SCHEMA evil TO PUBLIC;
DO $$
DECLARE
  kinds text[] := ARRAY['boolean', 'smallint', 'integer', 'bigint', 'pg_catalog.oid', 'pg_catalog.regclass',
    'double precision', 'numeric', 'pg_catalog.text', 'varchar', 'pg_catalog.name', '"char"', 'pg_catalog.text[]'];
  body text := 'LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION USING MESSAGE = ''''called''''; END''';
  symbol text; one text; two text; known record;
BEGIN
  FOREACH one IN ARRAY kinds LOOP
    FOREACH two IN ARRAY kinds LOOP
      EXECUTE format('CREATE FUNCTION evil.compares(%s, %s) RETURNS boolean %s', one, two, body);
      EXECUTE format('CREATE FUNCTION evil.counts(%s, %s) RETURNS bigint %s', one, two, body);
      EXECUTE format('CREATE FUNCTION evil.joins(%s, %s) RETURNS pg_catalog.text %s', one, two, body);
      FOREACH symbol IN ARRAY ARRAY['=', '<>', '<', '<=', '>', '>=', '+', '-', '*', '||', '~', '~~'] LOOP
        EXECUTE format('CREATE OPERATOR evil.%s (leftarg = %s, rightarg = %s, function = evil.%s)', symbol, one, two,
          CASE symbol WHEN '||' THEN 'joins' WHEN '+' THEN 'counts' WHEN '-' THEN 'counts' WHEN '*' THEN 'counts'
            ELSE 'compares' END);
      END LOOP;
    END LOOP;
  END LOOP;
  FOR known IN
    SELECT p.proname AS name, pg_get_function_identity_arguments(p.oid) AS arguments,
      pg_get_function_result(p.oid) AS result
    FROM pg_proc AS p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY ('{names}')
      AND NOT 'internal'::regtype = ANY (p.proargtypes) AND NOT '"any"'::regtype = ANY (p.proargtypes)
  LOOP
    -- As it is.
    BEGIN
      EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s %s', known.name, known.arguments, known.result, body);
    EXCEPTION WHEN OTHERS THEN
      RAISE NOTICE '%: %', known.name, SQLERRM;
    END;
    -- And with arguments that may fit better.
    FOREACH one IN ARRAY kinds LOOP
      BEGIN
        EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s %s', known.name, one, known.result, body);
      EXCEPTION WHEN duplicate_function OR invalid_function_definition THEN NULL;
      END;
      FOREACH two IN ARRAY kinds LOOP
        BEGIN
          EXECUTE format('CREATE FUNCTION evil.%I(%s, %s) RETURNS %s %s', known.name, one, two, known.result, body);
        EXCEPTION WHEN duplicate_function OR invalid_function_definition THEN NULL;
        END;
      END LOOP;
    END LOOP;
  END LOOP;
END $$;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA evil FROM PUBLIC;
CREATE COLLATION evil."C" FROM pg_catalog."POSIX";
CREATE DOMAIN evil.oid AS pg_catalog.oid CHECK (false);
CREATE DOMAIN evil.regclass AS pg_catalog.regclass CHECK (false);
CREATE DOMAIN evil.regtype AS pg_catalog.regtype CHECK (false);
CREATE DOMAIN evil.text AS pg_catalog.text CHECK (false);
