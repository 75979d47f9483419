/** The columns of the record for analysts must need no quotes in any SQL dialect that reads the topic. */
import { assert, describe, it } from '@effect/vitest'
import { SCHEMAS } from './schemas.ts'

/**
 * The reserved words with an underscore of Flink SQL 1.20, which include those of Spark 4 (ANSI mode).
 * DuckDB, ClickHouse and ksqlDB reserve only words without an underscore.
 */
const RESERVED = new Set(
  `catalog_name character_length character_set_catalog character_set_name character_set_schema char_length
  class_origin collation_catalog collation_name collation_schema column_name command_function
  command_function_code condition_number connection_name constraint_catalog constraint_name constraint_schema
  covar_pop covar_samp cume_dist current_catalog current_date current_default_transform_group current_path
  current_role current_schema current_time current_timestamp current_transform_group_for_type current_user
  cursor_name datetime_interval_code datetime_interval_precision dense_rank dynamic_function
  dynamic_function_code first_value frac_second key_member key_type last_value message_length
  message_octet_length message_text octet_length parameter_mode parameter_name parameter_ordinal_position
  parameter_specific_catalog parameter_specific_name parameter_specific_schema percentile_cont
  percentile_disc percent_rank regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
  regr_sxy regr_syy returned_cardinality returned_length returned_octet_length returned_sqlstate
  routine_catalog routine_name routine_schema row_count row_number schema_name scope_catalogs scope_name
  scope_schema server_name session_user specific_name sql_tsi_day sql_tsi_frac_second sql_tsi_hour
  sql_tsi_microsecond sql_tsi_minute sql_tsi_month sql_tsi_quarter sql_tsi_second sql_tsi_week sql_tsi_year
  stddev_pop stddev_samp subclass_origin system_user table_name timezone_hour timezone_minute
  top_level_count transactions_active transactions_committed transactions_rolled_back trigger_catalog
  trigger_name trigger_schema user_defined_type_catalog user_defined_type_code user_defined_type_name
  user_defined_type_schema var_pop var_samp width_bucket`.split(/\s+/u),
)

const isUsable = (column: string): boolean => /^[a-z]+(?:_[a-z]+)+$/u.test(column) && !RESERVED.has(column)

describe('the columns of MessageOutcome', () => {
  it('are reserved words of no SQL dialect', () => {
    const columns = SCHEMAS.filter(({ name }) => name === 'MessageOutcome').flatMap(({ schema }) =>
      (schema as { fields: ReadonlyArray<{ name: string }> }).fields.map(({ name }) => name),
    )
    assert.isNotEmpty(columns)
    assert.deepStrictEqual(
      columns.filter((column) => !isUsable(column)),
      [],
    )
    assert.deepStrictEqual(['status', 'mode', 'row_number', 'Status'].filter(isUsable), [])
  })

  it('are flat', () => {
    const types = SCHEMAS.filter(({ name }) => name === 'MessageOutcome').flatMap(({ schema }) =>
      (schema as { fields: ReadonlyArray<{ type: unknown }> }).fields.map(({ type }) => JSON.stringify(type)),
    )
    for (const type of types) assert.notMatch(type, /"(?:record|array|map|enum)"/u)
  })
})
