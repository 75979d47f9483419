-- What lets a flush be recorded by one statement.

-- Undoes the statement that finds its condition not fulfilled, with the code of a conflict: nothing is wrong, and what was to be written
-- has to be looked at again. It tells no data: what PostgreSQL says of a violated constraint stands in its log.
CREATE FUNCTION command.require(fulfilled boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF fulfilled THEN
    RETURN true;
  END IF;
  RAISE EXCEPTION 'a condition of this statement is not fulfilled' USING ERRCODE = 'serialization_failure';
END $$;
